"""Prompt facts: tables by hand, and a slow obvious reading of the rules against nasty small prompts."""

import hashlib
import re
import string
import tracemalloc
import unicodedata

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from demerit.quality.prompts import (
    PROMPT_FACTS_VERSION,
    PromptFacts,
    PromptHygiene,
    classify_prompt,
    prompt_hygiene,
)

FENCE = "`" * 3

# Flags: S short, N no code context, G bare greeting.
CASES = [
    ("two words are short", "what now", "S"),
    ("one word is short", "yes", "S"),
    ("three words are short", "go ahead then", "S"),
    ("four words are not short", "go ahead then please", ""),
    ("nothing is short and no greeting", "", "S"),
    ("white space is short and no greeting", " \n\t ", "S"),
    ("words are split at any white space, Unicode's too", "one\u2003two\u00a0three\u3000four", ""),
    ("a zero-width space is no white space", "one\u200btwo\u200bthree\u200bfour", "S"),
    ("a verb with a path", "please refactor the retry loop in internal/server/store/signals.go", ""),
    ("a verb without an anchor", "add pagination to the sessions list please", "N"),
    ("a verb with a file in a folder", "rewrite the parser entrypoint in parser/claude.go to stream", ""),
    ("a verb with a bare file name", "update the Dockerfile to pin the base image", ""),
    ("a verb with a dot file", "add build/ to .gitignore", ""),
    ("no verb of the list", "please write a short overview of this pull request", ""),
    ("a verb with a fenced block", f"change this to a switch:\n{FENCE}\nif a:\n{FENCE}", ""),
    ("a verb with inline code", "rename the method `run` to walk", ""),
    ("one back-tick is no code", "rename the method `run to walk", "N"),
    ("two back-ticks far apart are code", "rename ` the method to ` walk", ""),
    ("a verb, polite and vague", "can you fix the flaky login test for me", "N"),
    ("a question", "what does this project do and how is it structured", ""),
    ("greeting words only", "hello there claude my friend", "G"),
    ("a greeting before a request", "hi, please update the config loader in internal/config/load.go", ""),
    ("two segments are no path", "decide this and/or that and add a helper", "N"),
    ("three segments are a path", "add a helper under internal/server/web", ""),
    ("an empty third segment makes no path", "add a test in tests/unit/ for this", "N"),
    ("an empty first segment counts for nothing", "add a line to /etc/hosts for me", "N"),
    ("an absolute path of three names", "add a line to /etc/nginx/sites for me", ""),
    ("an empty middle segment ends a path", "add it under a//b for me", "N"),
    ("a path may begin after an empty segment", "add it under a//b/c/d for me", ""),
    (
        "a date with slashes is a path by the rule (akari 2.5, derived rows)",
        "change the date to 1/2/2024 please",
        "",
    ),
    ("dots and dashes are segments", "add it to ../../x-y for me", ""),
    ("a colon ends a segment", "add the page https://example.com/about for me", "N"),
    ("an address with two folders is a path", "add the page https://example.com/about/us for me", ""),
    ("short and without code at once", "fix it", "SN"),
    ("short and a greeting at once", "thanks!", "SG"),
    ("json is not in the list (akari 2.5, derived rows)", "update package.json dependencies for me now", "N"),
    (".env after a word is another file's ending", "fix foo.env loading for me", "N"),
    (".env on its own is a dot file", "fix the .env loading for me", ""),
    (".env at the start", ".env needs a fix for me", ""),
    (".env after a slash", "fix the config/.env loading for me", ""),
    (".env after a dot", "fix the ..env loading for me", "N"),
    (".env after a letter that is not ASCII", "fix the \u00e9.env loading for me", ""),
    (".env.local is .env with a suffix", "fix the .env.local loading for me", ""),
    (".envrc is another name", "fix the .envrc loading for me", "N"),
    (".dockerignore", "add dist to .dockerignore for me", ""),
    ("env without its dot", "add dist to env for me", "N"),
    ("an interrupt notice has four words", "[Request interrupted by user]", ""),
    ("a verb inside a word", "the prefixes of my additions were fixed", ""),
    ("a verb with an underscore is another word", "the value of fix_it is wrong", ""),
    ("a verb with a dash is a whole word", "the value of fix-it is wrong", "N"),
    ("a verb in capitals", "FIX the login test for me", "N"),
    ("a verb next to a letter that is not ASCII is a whole word", "\u00e9fix the login test for me", "N"),
    ("a long s is no s", "adju\u017ft the login te\u017ft for me", ""),
    ("a Kelvin sign is no k", "twea\u212a the login test for me", ""),
    ("a dotless i is no i", "f\u0131x the login test for me", ""),
    ("a file name in capitals", "fix the test in MAIN.PY for me", ""),
    ("a file name before a full stop", "for me please fix main.py.", ""),
    ("a file name of one letter and an extension of one letter", "please fix the crash in x.c", ""),
    ("an extension that goes on", "please fix the stale foo.pyc", "N"),
    ("an extension followed by a digit", "please fix the hash foo.md5", "N"),
    ("an extension followed by an underscore", "please fix the file foo.py_old", "N"),
    ("an extension followed by a dash", "please fix the file foo.py-old", ""),
    ("an extension followed by a letter that is not ASCII", "please fix main.py\u3092 for me", ""),
    ("an extension followed by another", "please fix the file foo.min.js.map", ""),
    ("an extension alone has no name", "please fix all the .py files", "N"),
    ("an extension after a star has no name", "please fix all the *.py files", "N"),
    ("an extension after a slash has no name", "please fix all the src/.py files", "N"),
    ("dots before an extension are no name", "please fix it ..py or so", "N"),
    ("an ellipsis before a word that is an extension", "please fix it...go ahead now", "N"),
    ("a version with an extension", "please fix the file v1.go", ""),
    ("a name that ends in a dash", "please fix the file x-.go", ""),
    ("a name that ends in an underscore", "please fix the file __init__.py", ""),
    (
        "a name that is not ASCII (word characters are ASCII)",
        "please fix the \u0444\u0430\u0439\u043b.py",
        "N",
    ),
    ("a space before the extension", "please fix the main .py", "N"),
    ("a longer word than a file name", "please fix the makefiles for me", "N"),
    ("a file name with a digit", "please fix the Dockerfile2 for me", "N"),
    ("a file name inside a word", "please fix the mydockerfile for me", "N"),
    ("a file name with a suffix", "please fix the Dockerfile.dev for me", ""),
    ("a file name behind a dash", "please fix the my-makefile for me", ""),
    ("go.mod", "update go.mod for me please", ""),
    ("go.mod needs its dot", "update go mod and goxmod please", "N"),
    ("go.mod inside a word", "update cargo.mod and xgo.mod please", "N"),
    ("go.sum goes on", "update go.summary for me please", "N"),
    ("cargo.lock", "update Cargo.lock for me please", ""),
    ("another lock file", "update poetry.lock for me please", "N"),
    ("a greeting with marks", "Hello, there! How are you doing today?", "G"),
    ("a greeting over lines", "hi\n\nteam\n", "SG"),
    ("marks alone are no greeting", "hello , there", "S"),
    ("marks of other kinds are not stripped", "(hello)", "S"),
    ("a dash is not stripped", "hello -", "S"),
    ("a mark inside a word is not stripped", "hel.lo", "S"),
    ("a mark between two words without a space is inside one", "hi,there", "S"),
    ("many marks on both sides", "...hello!!! ;;there?!", "SG"),
    ("a word of the list with more letters", "hellos everyone", "S"),
    ("hiya is not hi with more letters", "hiya", "SG"),
    ("a greeting with other white space", "good\u3000morning\u00a0all", "SG"),
    ("a greeting in capitals", "HELLO THERE", "SG"),
    ("a greeting with a Kelvin sign", "than\u212as claude", "S"),
    ("a greeting with a long s", "plea\u017fe", "S"),
    ("a greeting with a dotless i", "h\u0131", "S"),
    ("a greeting with a dotted capital i", "H\u0130", "S"),
    ("a greeting with a combining mark", "hi\u0301", "S"),
    (
        "one Japanese sentence is not short (akari: short)",
        "\u30ed\u30b0\u30a4\u30f3\u3092\u76f4\u3057\u3066",
        "",
    ),
    ("four Han letters are not short", "\u4fee\u590d\u767b\u5f55", ""),
    ("three Han letters are short", "\u4fee\u590d\u5427", "S"),
    ("four Han letters in two runs are short", "\u4fee\u590d \u767b\u5f55", "S"),
    ("a comma ends a run", "\u4fee\u590d\uff0c\u767b\u5f55", "S"),
    ("Han and Kana make one run", "\u76f4\u3057\u3066\u306d", ""),
    ("a prolonged sound and a repeat mark are letters", "\u30c7\u30fc\u30bf\u30fc", ""),
    ("half-width Kana", "\uff83\uff9e\uff70\uff80", ""),
    ("Han beyond the basic plane", "\U00020000\U00020001\U00020002\U00020003", ""),
    ("Korean has spaces: one word is short", "\ub85c\uadf8\uc778\uc744\uace0\uccd0\uc918", "S"),
    ("Thai", "\u0e0a\u0e48\u0e27\u0e22\u0e41\u0e01\u0e49\u0e44\u0e02", ""),
    ("a Thai mark is no letter", "\u0e17\u0e35\u0e48\u0e19\u0e35\u0e48", "S"),
    ("Lao", "\u0e8a\u0ec8\u0ea7\u0e8d\u0ec1\u0e81\u0ec9", ""),
    ("Khmer", "\u1787\u17bd\u1799\u1781\u17d2\u1789\u17bb\u17c6", ""),
    ("Burmese", "\u1000\u1030\u100a\u102e\u1015\u1031\u1038\u1015\u102b", ""),
    ("a zero-width space in Khmer does not end a run", "\u1780\u1781\u200b\u1782\u1783", ""),
    ("a run beside a word makes the prompt not short", "fix \u30ed\u30b0\u30a4\u30f3", "N"),
    ("half a surrogate pair is a letter like any other", "fix the \ud83d login test", "N"),
    ("a null character", "fix\0the login test now", "N"),
]


def flags(facts: PromptFacts) -> str:
    named = (("S", facts.short), ("N", facts.no_code_context), ("G", facts.bare_greeting))
    return "".join(letter for letter, holds in named if holds)


@pytest.mark.parametrize(("prompt", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_flags(prompt: str, expected: str) -> None:
    assert flags(classify_prompt(prompt)) == expected


VERBS = (
    "fix change add implement refactor update remove delete rename replace edit modify patch revert migrate"
    " rewrite extend adjust tweak"
)
EXTENSIONS = (
    "go ts tsx js jsx mjs cjs py rs rb java kt kts c cc cpp cxx h hpp hxx cs php swift scala clj ex exs sh"
    " bash zsh sql css scss sass less html htm xml yml yaml toml ini cfg md rst txt proto graphql vue svelte"
)
FILE_NAMES = "dockerfile makefile rakefile gemfile procfile jenkinsfile vagrantfile justfile go.mod go.sum cargo.lock"
DOT_FILES = "gitignore dockerignore env"
GREETINGS = (
    "hi hey hello yo sup howdy greetings good morning afternoon evening there all everyone team folks claude"
    " friend my how are you doing today please thanks hiya"
)


@pytest.mark.parametrize("verb", VERBS.split())
def test_every_verb_of_the_list_asks_for_a_change(verb: str) -> None:
    for spelled in (verb, verb.upper(), verb.title()):
        assert flags(classify_prompt(f"we should {spelled} that thing")) == "N"
        assert flags(classify_prompt(f"we should x{spelled} that thing")) == ""
        assert flags(classify_prompt(f"we should {spelled}x that thing")) == ""


@pytest.mark.parametrize("verb", ["write", "create", "build", "make", "fixes", "adding", "debug"])
def test_other_verbs_do_not(verb: str) -> None:
    assert flags(classify_prompt(f"we should {verb} that thing")) == ""


@pytest.mark.parametrize("extension", EXTENSIONS.split())
def test_every_extension_of_the_list_is_an_anchor(extension: str) -> None:
    for spelled in (extension, extension.upper()):
        assert flags(classify_prompt(f"fix the bug in a.{spelled}")) == ""
        assert flags(classify_prompt(f"fix the bug in a.{spelled}, now")) == ""
        assert flags(classify_prompt(f"fix the bug in .{spelled}")) == "N"
        assert flags(classify_prompt(f"fix the bug in a.{spelled}q")) == "N"


@pytest.mark.parametrize("extension", ["json", "lock", "png", "pdf", "exe", "log", "jsonl", "ipynb", "csv", "env"])
def test_other_extensions_are_none(extension: str) -> None:
    assert flags(classify_prompt(f"fix the bug in a.{extension}")) == "N"


@pytest.mark.parametrize("name", FILE_NAMES.split())
def test_every_file_name_of_the_list_is_an_anchor(name: str) -> None:
    for spelled in (name, name.upper(), name.title()):
        assert flags(classify_prompt(f"fix the bug in {spelled}")) == ""
        assert flags(classify_prompt(f"fix the bug in {spelled}s")) == "N"
        assert flags(classify_prompt(f"fix the bug in x{spelled}")) == "N"


@pytest.mark.parametrize("word", GREETINGS.split())
def test_every_word_of_the_greeting_list_is_one(word: str) -> None:
    assert flags(classify_prompt(f" {word.upper()}! ")) == "SG"
    assert flags(classify_prompt(f"{word}x")) == "S"


def test_a_long_greeting_is_read_to_its_end() -> None:
    assert flags(classify_prompt("hello there " + "please " * 20_000)) == "G"
    assert flags(classify_prompt("hello there " + "please " * 20_000 + "token")) == ""
    assert flags(classify_prompt("hello there " + "please " * 20_000 + "token " * 50_000)) == ""


def test_a_long_prompt_is_read_to_its_end() -> None:
    filler = "token " * 50_000
    assert flags(classify_prompt(f"rewrite internal/server/web {filler}")) == ""
    assert flags(classify_prompt(f"rewrite {filler} internal/server/web")) == ""
    assert flags(classify_prompt(f"{filler} rewrite")) == "N"
    assert flags(classify_prompt("x" * 300_000 + "/y/" + "z" * 300_000 + " fix it now")) == ""


# Scripts without spaces

UNSPACED_NAMES = (
    "CJK UNIFIED IDEOGRAPH",
    "CJK COMPATIBILITY IDEOGRAPH",
    "IDEOGRAPHIC ITERATION MARK",
    "HIRAGANA ",
    "HENTAIGANA ",
    "KATAKANA",
    "HALFWIDTH KATAKANA",
    "THAI ",
    "LAO ",
    "KHMER ",
    "MYANMAR ",
)


def test_every_letter_of_the_scripts_counts_and_no_other_letter_does() -> None:
    for code in range(0x250, 0x110000):
        char = chr(code)
        category = unicodedata.category(char)
        if category[0] not in "LMPNS":
            continue
        expected = category[0] == "L" and unicodedata.name(char, "").startswith(UNSPACED_NAMES)
        if not expected and (code in range(0x20000, 0x3FFFE) or code in (0x3007, *range(0x3021, 0x302A))):
            continue  # room for more Han; the numerals that Unicode calls Han without calling them letters
        if char in "\u3031\u3032\u3033\u3034\u3035\u303b\u303c":
            continue  # repeat marks whose names say VERTICAL
        assert classify_prompt(char * 4).short is not expected, f"U+{code:04X} {unicodedata.name(char, '')}"


def test_no_sign_of_the_scripts_ends_a_run() -> None:
    for code in range(0x250, 0x110000):
        char = chr(code)
        if unicodedata.category(char)[0] == "M" and unicodedata.name(char, "").startswith(UNSPACED_NAMES):
            assert not classify_prompt(f"\u4fee{char}\u590d{char}\u767b\u5f55").short, f"U+{code:04X}"
            assert classify_prompt(f"\u4fee{char}\u590d{char}\u767b").short, f"U+{code:04X}"


def test_white_space_is_what_python_calls_so() -> None:
    spaces = [chr(code) for code in range(0x110000) if chr(code).isspace()]
    for space in spaces:
        assert not classify_prompt(space.join(["one", "two", "three", "four"])).short
        assert classify_prompt(f"hi{space}there").bare_greeting
        assert classify_prompt(f"one{space}two").digest == classify_prompt("one two").digest


# The rules once more, slow and obvious

WORD = string.ascii_letters + string.digits + "_"
SEGMENT = WORD + ".-"


def ascii_lower(text: str) -> str:
    return "".join(char.lower() if char in string.ascii_uppercase else char for char in text)


def pieces(text: str, allowed: str) -> list[str]:
    return "".join(char if char in allowed else " " for char in text).split(" ")


def occurs_whole(name: str, text: str) -> bool:
    starts = [at for at in range(len(text)) if text.startswith(name, at)]
    return any(
        (at == 0 or text[at - 1] not in WORD) and (at + len(name) == len(text) or text[at + len(name)] not in WORD)
        for at in starts
    )


def names_a_source_file(text: str) -> bool:
    for at, char in enumerate(text):
        if char != "." or at == 0 or text[at - 1] not in WORD + "-":
            continue
        if pieces(text[at + 1 :], WORD)[0] in EXTENSIONS.split():
            return True
    return False


def names_a_dot_file(text: str) -> bool:
    for at, char in enumerate(text):
        if char != "." or (at > 0 and text[at - 1] in WORD + "."):
            continue
        if pieces(text[at + 1 :], WORD)[0] in DOT_FILES.split():
            return True
    return False


def names_a_path(text: str) -> bool:
    for piece in pieces(text, SEGMENT + "/"):
        segments = piece.split("/")
        if any(all(segments[at : at + 3]) for at in range(len(segments) - 2)):
            return True
    return False


def slowly(prompt: str) -> PromptFacts:
    text = ascii_lower(prompt)
    asks = any(word in VERBS.split() for word in pieces(text, WORD))
    points = (
        prompt.count("`") >= 2
        or any(occurs_whole(name, text) for name in FILE_NAMES.split())
        or names_a_source_file(text)
        or names_a_dot_file(text)
        or names_a_path(text)
    )
    tokens = prompt.split()
    greets = bool(tokens) and all(ascii_lower(token.strip(".,!?;:")) in GREETINGS.split() for token in tokens)
    letters = "".join(char for char in prompt if char not in "\u0e49\u200b")
    sentence = re.search("[\u4fee\u590d\u306e\u30fc\u0e01]{4}", letters)
    lowered = "".join(char.lower() for char in prompt)
    return PromptFacts(len(tokens) < 4 and not sentence, asks and not points, greets, hash(" ".join(lowered.split())))


NASTY = st.lists(
    st.sampled_from(
        [
            *"aAbcCgGhixk019_-./`, !?;:\\\n\t\0*()",
            *(
                "\u00e9",
                "\u03a3",
                "\u03c3",
                "\u03c2",
                "\u0130",
                "\u0131",
                "\u017f",
                "\u212a",
                "\u00a0",
                "\u3000",
            ),
            *(
                "\u200b",
                "\u4fee",
                "\u590d",
                "\u306e",
                "\u30fc",
                "\u0e01",
                "\u0e49",
                "\U0001f600",
                "\ud83d",
                "\ude00",
            ),
            *("fix", "Add", "tweak", "edit", "prefix", "hi", "ya", "Hello", "there", "thanks", "my"),
            *(".py", ".pyc", ".go", "go", ".mod", ".sum", "mod", ".env", ".gitignore", "c", ".c", ".md"),
            *(
                "Makefile",
                "dockerfile",
                "cargo",
                ".lock",
                "a/b",
                "/c",
                "//",
                "..",
                "./",
                "../",
                " fix ",
                "``",
            ),
        ]
    ),
    max_size=14,
).map("".join)


@settings(max_examples=1500, deadline=None)
@given(NASTY)
@example("a/b/")
@example("fix /b/c")
@example("fix a/./b")
@example("fix -/-/-")
@example("fix -.py")
@example("fix go.mod")
@example("fix .go.mod")
@example("fix ..gitignore")
@example("fix -.gitignore")
def test_the_fast_reading_and_the_slow_one_agree(prompt: str) -> None:
    assert classify_prompt(prompt)[:3] == slowly(prompt)[:3]


@settings(max_examples=600, deadline=None)
@given(NASTY.map(lambda text: f"fix {text}"))
def test_the_two_readings_agree_on_prompts_that_ask_for_a_change(prompt: str) -> None:
    assert classify_prompt(prompt)[:3] == slowly(prompt)[:3]


@settings(max_examples=300, deadline=None)
@given(NASTY, NASTY)
def test_digests_are_equal_exactly_when_the_folded_texts_are(one: str, other: str) -> None:
    for left, right in ((one, other), (one, one.swapcase()), (one + " " + other, one + "\n\u3000" + other)):
        equal = slowly(left).digest == slowly(right).digest
        assert (classify_prompt(left).digest == classify_prompt(right).digest) is equal


@given(st.text())
def test_no_text_raises_and_every_digest_fits_a_signed_column(prompt: str) -> None:
    assert -(2**63) <= classify_prompt(prompt).digest < 2**63


# Digests


def digest(prompt: str) -> int:
    return classify_prompt(prompt).digest


@given(st.text(), st.data())
def test_case_and_spacing_do_not_change_a_digest(prompt: str, data: st.DataObject) -> None:
    varied = ["".join(char.lower() if data.draw(st.booleans()) else char for char in word) for word in prompt.split()]
    space = st.text(" \t\r\n\u00a0\u2003\u3000", min_size=1, max_size=3)
    spaced = "".join(word + data.draw(space) for word in varied)
    assert digest(data.draw(space) + spaced) == digest(prompt)


SAME = [
    ("case", "Fix The Login", "fix the LOGIN"),
    ("runs of white space", "fix  the\n\n\tlogin", "fix the login"),
    ("outer white space", "\n fix the login \t", "fix the login"),
    ("nothing and white space", "", " \n\u3000\t"),
    ("a capital letter that is not ASCII", "\u00c4NDERN", "\u00e4ndern"),
    (
        "a capital sigma is lowered alone, wherever it stands",
        "\u039f\u0394\u039f\u03a3",
        "\u03bf\u03b4\u03bf\u03c3",
    ),
    ("a capital sigma inside", "\u03a3\u039f\u03a6", "\u03c3\u03bf\u03c6"),
]


@pytest.mark.parametrize(("one", "other"), [case[1:] for case in SAME], ids=[case[0] for case in SAME])
def test_these_digests_are_the_same(one: str, other: str) -> None:
    assert digest(one) == digest(other)


DIFFERENT = [
    ("a word more", "fix the login", "fix the login now"),
    ("a space inside a word", "login", "log in"),
    ("the order of words", "fix the login", "the login fix"),
    ("punctuation", "fix the login", "fix the login."),
    ("a final sigma is another letter than a sigma", "\u03bf\u03b4\u03bf\u03c2", "\u03bf\u03b4\u03bf\u03c3"),
    ("a sharp s is not lowered to two letters", "stra\u00dfe", "strasse"),
    ("two halves of a pair are not the whole", "\ud83d\ude00", "\U0001f600"),
    ("nothing and a null", "", "\0"),
]


@pytest.mark.parametrize(("one", "other"), [case[1:] for case in DIFFERENT], ids=[case[0] for case in DIFFERENT])
def test_these_digests_differ(one: str, other: str) -> None:
    assert digest(one) != digest(other)


@pytest.mark.parametrize("shift", range(-3, 4))
def test_a_digest_does_not_depend_on_where_its_windows_end(shift: int) -> None:
    for window in (8_192, 16_384):
        head = "x" * (window + shift)
        assert digest(f"{head} y") == digest(f"{head}\n\n \t y") == digest(f"  {head.upper()}  Y  ")
        assert digest(f"{head}y") != digest(f"{head} y")
        assert digest(f"{head[:-1]}\u03a3 y") == digest(f"{head[:-1]}\u03c3 y")
    blank = " " * (8_192 + shift)
    assert digest(f"a{blank}{blank}b") == digest("a b")
    assert digest(f"{blank}{blank}b{blank}") == digest("b")


def test_every_character_is_lowered_as_if_it_stood_alone() -> None:
    chars = [chr(code) for code in range(0x110000)]
    assert digest("a" + "".join(chars)) == digest("a" + "".join(char.lower() for char in chars))


def test_a_digest_stays_what_stored_rows_hold() -> None:
    """BLAKE2b of eight bytes over `fix the login`, read as a signed big-endian number."""
    stored = hashlib.blake2b(b"fix the login", digest_size=8).digest()
    assert digest(" Fix\nthe LOGIN") == int.from_bytes(stored, "big", signed=True)


# Cost

BULKY = [
    ("one letter", "f"),
    ("slashes", "/"),
    ("dots", "."),
    ("back-ticks", "`"),
    ("spaces", " "),
    ("empty segments", "a//"),
    ("dotted letters", "a."),
    ("Han", "\u4fee"),
    ("Han, emoji and Greek", "\u4fee\u6b63 \U0001f600 \u039f\u0394\u039f\u03a3 "),
    ("Thai signs", "\u0e01\u0e49\u0e49."),
    ("verbs", "fix "),
    ("greetings", "hello, "),
    ("marks", "hi!!!!!!!!!!!!!!"),
    ("halves of pairs", "\ud83d"),
]


@pytest.mark.parametrize("piece", [case[1] for case in BULKY], ids=[case[0] for case in BULKY])
def test_memory_does_not_grow_with_the_prompt(piece: str) -> None:
    prompt = piece * (4_000_000 // len(piece))
    tracemalloc.start()
    try:
        classify_prompt(prompt)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1 << 20


# Over a session

A = PromptFacts(digest=1)
B = PromptFacts(digest=2)
A_NO_CODE = PromptFacts(no_code_context=True, digest=1)
SHORT = PromptFacts(short=True, digest=3)
SHORT_NO_CODE = PromptFacts(short=True, no_code_context=True, digest=3)
LONG_GREETING = PromptFacts(bare_greeting=True, digest=4)

SESSIONS = [
    ("no prompt", [], (0, 0, 0, False)),
    ("one proper prompt", [A], (0, 0, 0, False)),
    ("a short opener", [SHORT, A], (1, 0, 0, True)),
    ("a long greeting as the opener", [LONG_GREETING, A], (0, 0, 0, True)),
    ("short and greeting later are no unstructured start", [A, SHORT, LONG_GREETING], (1, 0, 0, False)),
    ("a repeat counts beyond the first", [A, A], (0, 1, 0, False)),
    ("three copies are two duplicates", [A, A, A, B], (0, 2, 0, False)),
    ("copies need not be neighbours", [A, B, A, B], (0, 2, 0, False)),
    ("short prompts are never duplicates", [A, SHORT, SHORT, SHORT], (3, 0, 0, False)),
    ("three copies, another, and two short ones alike", [A, A, A, B, SHORT, SHORT], (2, 2, 0, False)),
    ("no code counts in short prompts, too", [A_NO_CODE, SHORT_NO_CODE], (1, 0, 2, False)),
    ("a duplicate counts as without code again", [A_NO_CODE, A_NO_CODE], (0, 1, 2, False)),
    (
        "a negative digest is one like another",
        [PromptFacts(digest=-1), PromptFacts(digest=-1)],
        (0, 1, 0, False),
    ),
]


@pytest.mark.parametrize(("facts", "hygiene"), [case[1:] for case in SESSIONS], ids=[case[0] for case in SESSIONS])
def test_hygiene(facts: list[PromptFacts], hygiene: tuple[int, int, int, bool]) -> None:
    assert prompt_hygiene(facts) == hygiene
    assert prompt_hygiene(iter(facts)) == hygiene


def hygiene_of(*prompts: str) -> PromptHygiene:
    return prompt_hygiene(map(classify_prompt, prompts))


def test_hygiene_of_a_session_that_opens_with_hey() -> None:
    assert hygiene_of(
        "hey",
        "add pagination to the sessions list",
        "Add pagination to the   sessions list\n",
        "now refactor the loop in internal/server/store/signals.go",
    ) == PromptHygiene(short=1, duplicate=1, no_code_context=2, unstructured_start=True)


def test_hygiene_of_repeats() -> None:
    steer = "please run the whole suite again"
    assert hygiene_of(steer, steer, "now look at the store", steer, "yes go", "yes go") == (2, 2, 0, False)


def test_japanese_prompts_can_be_duplicates() -> None:
    sentence = "\u30ed\u30b0\u30a4\u30f3\u3092\u76f4\u3057\u3066"
    assert hygiene_of(sentence, sentence) == (0, 1, 0, False)


@given(st.lists(NASTY, max_size=8))
def test_no_count_is_larger_than_the_number_of_prompts(prompts: list[str]) -> None:
    hygiene = hygiene_of(*prompts)
    for count in (
        hygiene.short,
        hygiene.duplicate,
        hygiene.no_code_context,
        hygiene.short + hygiene.duplicate,
    ):
        assert 0 <= count <= len(prompts)
    assert hygiene.unstructured_start is any(
        facts.short or facts.bare_greeting for facts in map(classify_prompt, prompts[:1])
    )


def test_facts_have_defaults_and_a_version() -> None:
    assert PromptFacts() == (False, False, False, 0)
    assert PromptHygiene() == (0, 0, 0, False)
    assert PROMPT_FACTS_VERSION == 1
