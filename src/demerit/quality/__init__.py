"""The scoring model: how a session ended, how well it went, what shape it had and how it was asked.

Everything here is pure: no clock, file, socket or environment.
"""

from demerit.quality.archetype import (
    DEEP_MESSAGES,
    DEEP_MINUTES,
    MARATHON_MESSAGES,
    MARATHON_MINUTES,
    STANDARD_MESSAGES,
    STANDARD_MINUTES,
    Archetype,
    ArchetypeFacts,
    classify_archetype,
)
from demerit.quality.assess import IDLE_AFTER, Assessor, assess, is_idle
from demerit.quality.context import (
    RESET_DROP_FRACTION,
    RESET_FLOOR_TOKENS,
    ContextHealth,
    ContextHealthFolder,
    context_health,
    is_context_reset,
)
from demerit.quality.outcome import ERRORED_TAIL, Confidence, Facts, Outcome, Verdict, classify
from demerit.quality.prompts import (
    PROMPT_FACTS_VERSION,
    PromptFacts,
    PromptHygiene,
    classify_prompt,
    prompt_hygiene,
)
from demerit.quality.report import Advice, BreakdownLine, CallRef, Report, UsageTotals
from demerit.quality.score import (
    GRADE_ORDER,
    SIGNALS_VERSION,
    Penalty,
    PenaltyKind,
    Score,
    ScoreBreakdownItem,
    Signals,
    gpa_points,
    grade_for,
    penalties,
    score,
    score_breakdown,
)
from demerit.quality.summary import Summary, summarize
from demerit.quality.thinking import (
    THINKING_BYTES_PER_TOKEN,
    Thinking,
    ThinkingBand,
    ThinkingFolder,
    estimate_tokens,
    thinking_band,
)
from demerit.quality.usage import RequestTotals

__all__ = [
    "DEEP_MESSAGES",
    "DEEP_MINUTES",
    "ERRORED_TAIL",
    "GRADE_ORDER",
    "IDLE_AFTER",
    "MARATHON_MESSAGES",
    "MARATHON_MINUTES",
    "PROMPT_FACTS_VERSION",
    "RESET_DROP_FRACTION",
    "RESET_FLOOR_TOKENS",
    "SIGNALS_VERSION",
    "STANDARD_MESSAGES",
    "STANDARD_MINUTES",
    "THINKING_BYTES_PER_TOKEN",
    "Advice",
    "Archetype",
    "ArchetypeFacts",
    "Assessor",
    "BreakdownLine",
    "CallRef",
    "Confidence",
    "ContextHealth",
    "ContextHealthFolder",
    "Facts",
    "Outcome",
    "Penalty",
    "PenaltyKind",
    "PromptFacts",
    "PromptHygiene",
    "Report",
    "RequestTotals",
    "Score",
    "ScoreBreakdownItem",
    "Signals",
    "Summary",
    "Thinking",
    "ThinkingBand",
    "ThinkingFolder",
    "UsageTotals",
    "Verdict",
    "assess",
    "classify",
    "classify_archetype",
    "classify_prompt",
    "context_health",
    "estimate_tokens",
    "gpa_points",
    "grade_for",
    "is_context_reset",
    "is_idle",
    "penalties",
    "prompt_hygiene",
    "score",
    "score_breakdown",
    "summarize",
    "thinking_band",
]
