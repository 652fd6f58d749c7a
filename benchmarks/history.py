"""A store of a long history: many sessions in all tables, with sums that agree with their rows. Made once.

    path = history(100_000)

Two years of work by weeks and hours of the day: agents, models, projects and tools of which few are used much, some
fifty messages and thirty calls a session, one session in twelve a sub-agent's, one in a hundred a copy.
"""

from __future__ import annotations

import hashlib
import json
import random
import time
from bisect import bisect
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from pathlib import Path
from typing import Any

import msgspec
from sqlalchemy import Connection, Table

from benchmarks.data import DATA, SAMPLES
from demerit import library
from demerit.model import PARSE_EPOCH, CallStatus
from demerit.quality import PROMPT_FACTS_VERSION, SIGNALS_VERSION, grade_for
from demerit.quality.advice import RULES
from demerit.store import Store, schema
from demerit.store.engines import insert_rows
from demerit.store.filters import microseconds
from demerit.store.search import index_texts
from demerit.store.texts import TEXT_SPACE, packed, packed_bytes

END = datetime(2026, 6, 1, tzinfo=UTC)
DAYS = 730
LONG_MESSAGES = 10_000
"""In the last session, on which windows of a transcript are read."""

AGENTS = (
    *("claude-code", "codex", "gemini", "opencode", "copilot", "cline"),
    *("aider", "goose", "qwen", "cursor", "droid", "kimi"),
)
MODELS = [f"{maker}-{number}" for number in range(1, 6) for maker in ("alder", "birch", "cedar", "dogwood", "elm")]
_PROJECTS = 300
_TOOLS = ["Bash", "Read", "Edit", "Grep", "Write", *(f"mcp__server{number % 9}__tool{number}" for number in range(55))]
_CATEGORIES = ("shell", "read", "edit", "search", "write")
_STATUSES = (
    ("ok", 88),
    ("failed", 6),
    ("benign", 2),
    ("invalid", 1),
    ("declined", 1),
    ("cancelled", 1),
    ("unknown", 1),
)
_OUTCOMES = (("completed", "high"), ("completed", "medium"), ("abandoned", "medium"), ("errored", "high"))
_ENDINGS = (None, None, None, None, None, "interrupted", "api_error", "max_turns")
_WORDS = (
    "add fix the a failing test for parser lexer config cache of in to with and why is slow index query page table "
    "when user opens settings button crash trace module rename split merge docs build release version error timeout"
).split()
_BY_HOUR = [1, 1, 1, 1, 1, 1, 2, 4, 9, 14, 16, 15, 12, 14, 16, 16, 15, 12, 8, 6, 6, 5, 3, 2]
_BY_WEEKDAY = (10, 11, 11, 10, 9, 3, 3)
_HOUR_US = 3_600_000_000
_MOST_GAP_US = 300_000_000
_RULES = [rule.__name__ for rule in RULES]


def _picker(values: Sequence[Any], weights: Sequence[float], chance: random.Random) -> Callable[[], Any]:
    """A function that draws one of the values: `random.choices` without its checks, of which there are millions."""
    bounds = list(accumulate(weights))
    draw, most = chance.random, bounds[-1]
    return lambda: values[bisect(bounds, draw() * most)]


def _zipf(count: int, power: float = 1.0) -> list[float]:
    return [place**-power for place in range(1, count + 1)]


class _Rows:
    """Makes the rows of all tables, session by session, and hands them over in parts."""

    def __init__(self, connection: Connection, sessions: int, seed: int = 7) -> None:
        self.connection = connection
        self.sessions = sessions
        self.chance = chance = random.Random(seed)
        self.rows: dict[Table, list[Sequence[Any]]] = defaultdict(list)
        self.words: list[tuple[int, str]] = []
        self.agent = _picker(AGENTS, _zipf(len(AGENTS)), chance)
        self.model = _picker(MODELS, _zipf(len(MODELS)), chance)
        self.project = _picker(range(1, _PROJECTS + 1), _zipf(_PROJECTS), chance)
        self.tool = _picker(range(len(_TOOLS)), _zipf(len(_TOOLS), 1.6), chance)  # some eight in a session
        self.status = _picker([name for name, _ in _STATUSES], [weight for _, weight in _STATUSES], chance)
        self.word = _picker(_WORDS, _zipf(len(_WORDS)), chance)
        self.reports = [
            packed_bytes(msgspec.json.encode(library.grade(SAMPLES / f"{name}.jsonl", now=END)[0]))
            for name in ("claude-bad", "claude-looping", "codex-failing", "codex-patches")
        ]
        self.judged = [agent not in ("aider", "cursor") for agent in AGENTS]
        self.columns = [column.name for column in schema.sessions.c if column.computed is None]

    def starts(self) -> list[int]:
        """Microseconds: by weeks and hours of the day; the first half, as a first sync finds it, in no order."""
        first = END - timedelta(days=DAYS)
        days = [first + timedelta(days=number) for number in range(DAYS)]
        day = _picker(days, [_BY_WEEKDAY[at.weekday()] * (1 + n / DAYS) for n, at in enumerate(days)], self.chance)
        hour = _picker(range(24), _BY_HOUR, self.chance)
        found = sorted(
            microseconds(day()) + hour() * _HOUR_US + self.chance.randrange(_HOUR_US) for _ in range(self.sessions)
        )
        early = found[: len(found) // 2]
        self.chance.shuffle(early)
        return early + found[len(found) // 2 :]

    def make(self) -> None:
        self.rows[schema.projects] = [
            (number, f"/code/group{number % 20}/project-{number}", f"project-{number % 280}", "folder")
            for number in range(1, _PROJECTS + 1)
        ]
        for number, start in enumerate(self.starts(), 1):
            self.session(number, start, is_long=number == self.sessions)
            if number % 2000 == 0:
                self.hand_over()
                print(f"\r  {number:,} sessions", end="", flush=True)
        self.hand_over()
        insert_rows(self.connection, schema.counters, [("sessions", self.sessions)])
        print()

    def hand_over(self) -> None:
        for table in schema.metadata.sorted_tables:
            insert_rows(self.connection, table, self.rows.pop(table, []))
        index_texts(self.connection, self.words)
        self.words = []

    def said(self, count: int) -> str:
        return " ".join(self.word() for _ in range(count))

    def text(self, number: int, place: int, kind: str, message: int, call: int | None, words: int) -> int:
        text_id, text = number * TEXT_SPACE + place, self.said(words)
        row = (text_id, number, f"{text_id:x}", kind, message, call, len(text), True, packed(text))
        self.rows[schema.texts].append(row)
        self.words.append((text_id, text))
        return text_id

    def session(self, number: int, start_us: int, is_long: bool) -> None:
        chance, draw, rows = self.chance, self.chance.random, self.rows
        place = AGENTS.index(agent := self.agent())
        model, second = self.model(), self.model()
        is_subagent = number > 100 and draw() < 0.08
        length = LONG_MESSAGES if is_long else max(2, min(3000, round(chance.lognormvariate(3.37, 1.06))))
        with_texts = is_long or number % 100 == 0
        at = start_us
        hours: dict[tuple[int, str], list[Any]] = {}
        tools: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
        files: Counter[str] = Counter()
        models: Counter[str] = Counter()
        defects: dict[str, Counter[str]] = defaultdict(Counter)
        prompts = texts = requests = context = peak = resets = calls_made = 0
        totals, cost_in_all, unpriced = [0, 0, 0, 0], 0.0, 0
        of_messages, of_calls, of_usage = rows[schema.messages], rows[schema.tool_calls], rows[schema.usage_events]
        for ordinal in range(length):
            gap = int(chance.expovariate(1 / 30_000_000)) if draw() < 0.985 else chance.randrange(2 * _HOUR_US)
            if ordinal:
                at += gap
            hour = at // _HOUR_US
            is_answer = ordinal % 2 == 1
            is_prompt = not is_answer and not is_subagent and (ordinal == 0 or draw() < 0.2)
            speaker = "" if not is_answer else second if draw() < 0.04 else model
            sums = hours.get((hour, speaker))
            if sums is None:
                sums = hours[hour, speaker] = [0, 0, 0, 0, 0, 0, 0, 0, 0, None, None, 0, 0]
            sums[0] += 1
            sums[1] += is_prompt
            if ordinal and 0 < gap <= _MOST_GAP_US:
                sums[3] += gap
            prompts += is_prompt
            calls = 0
            if is_answer:
                models[speaker] += 1
                defects[speaker]["responses"] += 1
                calls = 1 if draw() < 0.7 else chance.randrange(1, 3)
                context += chance.randrange(3000)
                if context > 180_000:
                    context, resets = 20_000, resets + 1
                peak = max(peak, context)
                new, written, output = chance.randrange(2000), chance.randrange(4000), chance.randrange(1500)
                price = None if speaker == MODELS[-1] else (new + 0.1 * context + 1.25 * written + 5 * output) * 3e-6
                of_usage.append(
                    (
                        *(number, requests, ordinal, (number * 4096 + requests) * 0x5851F42D4C957F2D & (1 << 63) - 1),
                        *(speaker, at, new, context, written, 0, output, None, False, False, context, True, price),
                    )
                )
                requests += 1
                for field, value in ((4, 1), (5, new), (6, context), (7, written), (8, output)):
                    sums[field] += value
                totals = [a + b for a, b in zip(totals, (new, context, written, output), strict=True)]
                if price is None:
                    sums[11] += 1
                    sums[12] += new + context + written + output
                    unpriced += 1
                else:
                    sums[10] = (sums[10] or 0.0) + price
                    cost_in_all += price
                for index in range(calls):
                    which = self.tool()
                    name, status = _TOOLS[which], self.status() if self.judged[place] else "unknown"
                    category = _CATEGORIES[which] if which < 5 else "mcp"
                    path = f"src/part{chance.randrange(40)}/file{chance.randrange(200)}.py" if 0 < which < 5 else None
                    input_id = result_id = None
                    if with_texts and ordinal < 2000:
                        input_id = self.text(number, texts, "input", ordinal, index, 20)
                        result_id = self.text(number, texts + 1, "output", ordinal, index, 120)
                        texts += 2
                    of_calls.append(
                        (
                            *(number, ordinal, index, name, category, None if which < 5 else f"server{which % 9}"),
                            *(status, "exit_code", f"toolu_{number:x}_{ordinal:x}{index}", f"{gap:016x}", None, False),
                            *(True, None if path is None else json.dumps([path]), at, input_id, result_id),
                        )
                    )
                    sums[2] += 1
                    calls_made += 1
                    tools[name, speaker][status] += 1
                    defects[speaker]["calls"] += 1
                    defects[speaker]["invalid"] += status == "invalid"
                    if path is not None and which in (2, 4) and status == "ok":
                        # Files are few in a session, and some are changed again.
                        path = f"src/part{number % 40}/file{chance.randrange(12)}.py"
                        files[path] += 1
                        rows[schema.file_changes].append((number, ordinal, index, 0, path))
            text_id = None
            if is_prompt and ordinal == 0:
                text_id = self.text(number, texts, "prompt", ordinal, None, 12)
                texts += 1
            elif with_texts and ordinal < 2000:
                kind = "prompt" if is_prompt else "answer" if is_answer else "context"
                text_id = self.text(number, texts, kind, ordinal, None, 60)
                texts += 1
            facts = (PROMPT_FACTS_VERSION, draw() < 0.2, draw() < 0.3, False, chance.getrandbits(62))
            of_messages.append(
                (
                    *(number, ordinal, "assistant" if is_answer else "user" if is_prompt else "context"),
                    *("agent" if is_answer else "human" if is_prompt else "harness", None, False, False, True, False),
                    *(speaker or None, at, "end_turn" if is_answer else None, calls, 400, text_id, 0),
                    *(0.0 if is_answer else None, None, number << 20 | ordinal),
                    *(facts if is_prompt else (None,) * 5),
                )
            )
        self.sums(number, place, hours, tools, files, defects)
        is_measured, is_copy = draw() > 0.004, draw() < 0.01
        score = None if draw() < 0.1 else max(0, min(100, round(chance.gauss(82, 16))))
        if is_measured:
            outcome, confidence = chance.choice(_OUTCOMES) if score is not None else ("unknown", "low")
            failures = sum(tally["failed"] + tally["invalid"] for tally in tools.values())
            short, no_code = (chance.randrange(prompts + 1) // 2 for _ in range(2))
            told = self.judged[place]
            rows[schema.session_signals].append(
                (
                    *(number, SIGNALS_VERSION, outcome, confidence, chance.choice(_ENDINGS), score),
                    *(None if score is None else grade_for(score), calls_made, failures if told else None),
                    *(0 if told else None, sum(count - 1 for count in files.values()), 0 if told else None),
                    *(prompts, short, chance.randrange(prompts + 1) // 3, no_code, prompts > 0 and draw() < 0.2),
                    *(peak, resets, requests, 0, 0, 0),
                )
            )
            rows[schema.session_reports].append((number, chance.choice(self.reports)))
            rows[schema.session_advice] += [(number, rule) for rule in chance.sample(_RULES, chance.randrange(4))]
        facts_of = {
            "id": number,
            "log_id": number,
            "agent": agent,
            "source_id": f"{chance.getrandbits(128):032x}",
            "place": 0,
            "parent_id": number - 1 - chance.randrange(99) if is_subagent else None,
            "relation": "subagent" if is_subagent else None,
            "copy_of": number - 1 if is_copy and number > 1 else None,
            "project_id": None if draw() < 0.02 else self.project(),
            "cwd": "/code/project",
            "branch": chance.choice(("main", "main", "topic")),
            "agent_version": f"{place}.{(start_us // (30 * 24 * _HOUR_US)) % 60}",
            "title": self.said(6),
            "model": model,
            "models": json.dumps(list(models)),
            "started_us": start_us,
            "ended_us": at,
            "last_us": at,
            "is_terminal": True,
            "messages": length,
            "user_messages": prompts,
            "replayed_messages": 0,
            "requests": requests,
            **dict(
                zip(("input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens"), totals, strict=True)
            ),
            "cost_usd": cost_in_all or None,
            "unpriced_requests": unpriced,
            "untold": "[]" if self.judged[place] else '["statuses"]',
            "losses": "{}",
            "advice": "[]",
            "digest": f"{number:064x}",
            "generation": 0,
            "epoch": PARSE_EPOCH,
            "output_is_partial": False,
            "is_stale": not is_measured,
        }
        rows[schema.sessions].append(tuple(facts_of.get(name) for name in self.columns))
        log = (
            number,
            f"{number:032x}",
            "here",
            f"/home/user/.agents/logs/{number}.jsonl",
            agent,
            f"{number}-1",
            100_000,
        )
        rows[schema.logs].append((*log, at, 0, PARSE_EPOCH, None, True, False, None, at))

    def sums(
        self,
        number: int,
        place: int,
        hours: dict[tuple[int, str], list[Any]],
        tools: dict[tuple[str, str], Counter[str]],
        files: Counter[str],
        defects: dict[str, Counter[str]],
    ) -> None:
        rows, draw = self.rows, self.chance.random
        rows[schema.session_hours] += [(number, *key, *sums) for key, sums in hours.items()]
        named: set[str] = set()
        for key, statuses in tools.items():
            category = "mcp" if key[0].startswith("mcp") else "other"
            counts = (statuses.total(), *(statuses[status.value] for status in CallStatus))
            rows[schema.session_tools].append(
                (number, *key, category, None, *counts, self.judged[place], key[0] not in named)
            )
            named.add(key[0])
        rows[schema.session_files] += [(number, path, changes) for path, changes in files.items()]
        for model, found in defects.items():
            responses = found["responses"]
            broken = sum(draw() < 0.01 for _ in range(min(responses, 50)))
            counts = (responses, broken, broken, broken // 2, found["calls"], found["invalid"])
            rows[schema.session_defects].append((number, model, *counts))


def history(sessions: int) -> Path:
    """The database of that many sessions, made once, and anew when the schema or what is made has changed."""
    sources = [Path(__file__), Path(str(schema.__file__))]
    made_of = [*(source.read_bytes() for source in sources), bytes((PARSE_EPOCH, SIGNALS_VERSION))]
    path = DATA / f"history-{sessions}-{hashlib.sha256(b''.join(made_of)).hexdigest()[:8]}.db"
    if path.exists():
        return path
    DATA.mkdir(exist_ok=True)
    for old in DATA.glob(f"history-{sessions}-*"):
        old.unlink()
    part = path.with_suffix(".part")
    print(f"making {path.name}")
    begun = time.perf_counter()
    with Store.open(f"sqlite:///{part}") as store, store.engine.connect() as connection:
        raw = connection.connection.driver_connection
        assert raw is not None
        for pragma in ("journal_mode = off", "synchronous = off", "foreign_keys = off", "cache_size = -2000000"):
            raw.execute(f"pragma {pragma}")  # before any transaction: in one, they change nothing
        with connection.execution_options(writes=True).begin():
            _Rows(connection, sessions).make()
        connection.exec_driver_sql("insert into search (search) values ('optimize')")
        connection.exec_driver_sql("analyze")
        connection.commit()
        raw.execute("pragma journal_mode = wal")
    part.rename(path)
    print(f"  {path.stat().st_size / 1e9:.2f} GB in {time.perf_counter() - begun:.0f} s")
    return path
