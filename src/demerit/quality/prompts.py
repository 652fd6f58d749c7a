"""How a person asked: four facts of each prompt and their sums over a session, never part of the score.

`classify_prompt` may be handed a pasted log of many megabytes, so everything here works in linear time
and in memory that does not grow with the prompt. Two habits keep it so. A pattern can only begin at a
character that ends the candidate before it (a word's first letter, a dot, a slash), so that no stretch of
text is looked at again for each of its positions; runs are possessive (`++`), so that a failed match is
not retried shorter. And nothing copies the whole prompt (`lower`, `split`, `encode`): only windows of it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from typing import NamedTuple

__all__ = ["PROMPT_FACTS_VERSION", "PromptFacts", "PromptHygiene", "classify_prompt", "prompt_hygiene"]

PROMPT_FACTS_VERSION = 1
"""Recorded with every stored prompt's facts. Raise it only when `classify_prompt` answers differently, and
raise the parse epoch with it: the facts can only be derived again where the prompt's text is read."""


class PromptFacts(NamedTuple):
    """What is kept of a prompt: of fixed size, however long it was."""

    short: bool = False
    """Fewer than four words. A prompt that is not short is eligible to be a duplicate."""
    no_code_context: bool = False
    """It asks for a change and points at no code."""
    bare_greeting: bool = False
    """Nothing but greetings and courtesies."""
    digest: int = 0
    """Signed 64-bit hash; equal for prompts that differ in case and white space only."""


class PromptHygiene(NamedTuple):
    """How many of a session's prompts were what."""

    short: int = 0
    duplicate: int = 0
    """Repeats beyond the first, among the prompts that are not short."""
    no_code_context: int = 0
    unstructured_start: bool = False
    """The first prompt was short or a bare greeting; False when there is none."""


def classify_prompt(prompt: str) -> PromptFacts:
    """The facts of one prompt.

    White space and case are Unicode's, but for the word lists: those match ASCII letters only, and a word
    ends where a letter, digit or underscore of ASCII is followed by anything else.
    Source: word lists and anchors are those of akari's published model; that a sentence in a script
    without spaces is not short is ours.
    """
    return PromptFacts(
        short=_is_short(prompt),
        no_code_context=_VERB.search(prompt) is not None and not _points_at_code(prompt),
        bare_greeting=_is_bare_greeting(prompt),
        digest=_digest(prompt),
    )


def prompt_hygiene(facts: Iterable[PromptFacts]) -> PromptHygiene:
    """The sums over a session's prompts, given in order; all 0 and False when there is none."""
    short = eligible = no_code_context = 0
    unstructured_start = False
    digests: set[int] = set()
    for at, prompt in enumerate(facts):
        if at == 0:
            unstructured_start = prompt.short or prompt.bare_greeting
        no_code_context += prompt.no_code_context
        if prompt.short:
            short += 1
        else:
            eligible += 1
            digests.add(prompt.digest)
    return PromptHygiene(short, eligible - len(digests), no_code_context, unstructured_start)


# Short

_FOUR_WORDS = re.compile(r"\s*+(?:\S++\s++){3}\S")

# Letters of the scripts that are written without spaces, with the signs that stand on or between them.
# A sign neither counts as a letter nor ends a run: Thai tone marks, Burmese vowels, variation selectors,
# and the zero-width spaces and joiners by which some writers mark words in these scripts.
_UNSPACED_LETTERS = (
    "\u3005\u3007\u3021-\u3029\u303b\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufad9\U00020000-\U0003fffd"  # Han
    "\u3031-\u3035\u303c\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff"  # Kana
    "\uff66-\uff9f\U0001aff0-\U0001affe\U0001b000-\U0001b167"
    "\u0e01-\u0e30\u0e32\u0e33\u0e40-\u0e46"  # Thai
    "\u0e81-\u0eb0\u0eb2\u0eb3\u0ebd-\u0ec6\u0edc-\u0edf"  # Lao
    "\u1780-\u17b3\u17d7\u17dc"  # Khmer
    "\u1000-\u102a\u103f\u1050-\u1055\u105a-\u105d\u1061\u1065\u1066\u106e-\u1070"  # Burmese
    "\u1075-\u1081\u108e"
    "\ua9e0-\ua9e4\ua9e6-\ua9ef\ua9fa-\ua9fe\uaa60-\uaa76\uaa7a\uaa7e\uaa7f"
)
_UNSPACED_SIGNS = (
    "\u200b-\u200d\ufe00-\ufe0f\U000e0100-\U000e01ef"
    "\u3099\u309a"
    "\u0e31\u0e34-\u0e3a\u0e47-\u0e4e"
    "\u0eb1\u0eb4-\u0ebc\u0ec8-\u0ece"
    "\u17b4-\u17d3\u17dd"
    "\u102b-\u103e\u1056-\u1059\u105e-\u1060\u1062-\u1064\u1067-\u106d\u1071-\u1074\u1082-\u108d\u108f"
    "\u109a-\u109d\ua9e5\uaa7b-\uaa7d"
)
_UNSPACED_SENTENCE = re.compile(f"(?:[{_UNSPACED_LETTERS}][{_UNSPACED_SIGNS}]*+){{4}}")


def _is_short(prompt: str) -> bool:
    if _FOUR_WORDS.match(prompt):
        return False
    return prompt.isascii() or _UNSPACED_SENTENCE.search(prompt) is None


# Asking for a change, and pointing at code


def _one_of(words: str) -> str:
    """A pattern of the words, escaped; it looks at two letters before it tries the words one by one."""
    listed = words.split()
    firsts = "".join(sorted({word[0] for word in listed}))
    seconds = "".join(sorted({word[1] for word in listed if len(word) > 1}))
    letters = "".join(word for word in listed if len(word) == 1)
    single = rf"|[{letters}]\b" if letters else ""
    return f"(?=[{firsts}][{seconds}]{single})(?:{'|'.join(map(re.escape, listed))})"


_ASCII_ANY_CASE = re.ASCII | re.IGNORECASE

_VERBS = """
    fix change add implement refactor update remove delete rename replace edit modify patch revert migrate
    rewrite extend adjust tweak
"""
_SOURCE_EXTENSIONS = """
    go ts tsx js jsx mjs cjs py rs rb java kt kts c cc cpp cxx h hpp hxx cs php swift scala clj ex exs sh bash
    zsh sql css scss sass less html htm xml yml yaml toml ini cfg md rst txt proto graphql vue svelte
"""
_FILE_NAMES = """
    dockerfile makefile rakefile gemfile procfile jenkinsfile vagrantfile justfile go.mod go.sum cargo.lock
"""
_DOT_FILES = "gitignore dockerignore env"

_VERB = re.compile(rf"\b{_one_of(_VERBS)}\b", _ASCII_ANY_CASE)
_FILE_NAME = re.compile(rf"\b{_one_of(_FILE_NAMES)}\b", _ASCII_ANY_CASE)

# These look back from their dot or slash instead of beginning with the name before it: a pattern that began
# there would run through the name once for each of its letters.
_SOURCE_FILE = re.compile(rf"\.(?<=[\w-]\.){_one_of(_SOURCE_EXTENSIONS)}\b", _ASCII_ANY_CASE)
_DOT_FILE = re.compile(rf"\.(?<![\w.]\.){_one_of(_DOT_FILES)}\b", _ASCII_ANY_CASE)
_PATH = re.compile(r"/(?<=[\w.-]/)[\w.-]++/[\w.-]", re.ASCII)

_ANCHORS = (_FILE_NAME, _SOURCE_FILE, _DOT_FILE, _PATH)


def _points_at_code(prompt: str) -> bool:
    # Two back-ticks anywhere: inline code, and every fence.
    tick = prompt.find("`")
    if tick >= 0 and prompt.find("`", tick + 1) >= 0:
        return True
    return any(anchor.search(prompt) for anchor in _ANCHORS)


# Greetings

_GREETINGS = """
    hi hey hello yo sup howdy greetings good morning afternoon evening there all everyone team folks claude
    friend my how are you doing today please thanks hiya
"""

# Many words a match keeps the loop below short; a bound on them keeps what the engine remembers small.
# Only the list is ASCII (`a`): the white space between words is Unicode's.
_GREETING_WORDS = re.compile(rf"\s*+(?:[.,!?;:]*+(?ai:{_one_of(_GREETINGS)})[.,!?;:]*+(?:\s++|\Z)){{1,256}}")


def _is_bare_greeting(prompt: str) -> bool:
    at = 0
    while words := _GREETING_WORDS.match(prompt, at):
        at = words.end()
    return 0 < at == len(prompt)


# Digest

_WINDOW = 8192
"""Characters folded at a time: small enough that their words, as separate strings, stay under a megabyte."""


def _digest(prompt: str) -> int:
    """The hash of the prompt in lower case, with one space for each run of white space inside it."""
    folded = hashlib.blake2b(digest_size=8)
    begun = False
    space_before = False
    for at in range(0, len(prompt), _WINDOW):
        # Sigma first: it is the one letter whose lower case depends on its neighbours, and a window's edge
        # hides those.
        window = prompt[at : at + _WINDOW].replace("\u03a3", "\u03c3").lower()
        words = window.split()
        if words:
            if begun and (space_before or window[0].isspace()):
                folded.update(b" ")
            # A log can hold half of a surrogate pair, which plain UTF-8 refuses.
            folded.update(" ".join(words).encode("utf-8", "surrogatepass"))
            begun = True
        space_before = window[-1].isspace()
    return int.from_bytes(folded.digest(), "big", signed=True)
