"""What is taken out of text that leaves, and what stays as it is."""

from __future__ import annotations

import json
import re
import time
from hashlib import blake2b
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.secrets_planted import PLANTED, planted_in, planted_lines

from demerit.redact import Secret, find_secrets, redact, redact_value

MARKER = re.compile(r"\[REDACTED:[a-z0-9-]+:[0-9a-f]{8}\]")
LINES = dict(zip(PLANTED, planted_lines(), strict=True))
# Of known form, not under any telling name: from pieces, like those in PLANTED.
GITHUB = "gh" + "p_" + "a1B2c3D4e5" * 4
KEY_BEGIN = "-----BEGIN RSA PRIVATE" + " KEY-----"
KEY_END = KEY_BEGIN.replace("BEGIN", "END")
KEY_LINE = "MIIEow1B" + "aB3+/x9K" * 7
# Of no form at all: only their names or places tell.
SHORT = "abc" + "d12"
LONG = "abc" + "d1234"


def fingerprint(value: str) -> str:
    return blake2b(value.encode()).hexdigest()[:8]


def in_json(text: str) -> str:
    return json.dumps({"text": f"before\n{text}\nafter"})


# --- what goes --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", PLANTED)
def test_a_planted_secret_goes_and_all_around_it_stays(kind: str) -> None:
    line, value = LINES[kind], PLANTED[kind]
    assert MARKER.sub("@", redact(line)) == line.replace(value, "@")


@pytest.mark.parametrize("kind", PLANTED)
@pytest.mark.parametrize("depth", [1, 2], ids=["in JSON", "in JSON that is in JSON"])
def test_so_it_does_between_escapes(kind: str, depth: int) -> None:
    line, value = LINES[kind], PLANTED[kind]
    for _ in range(depth):
        line, value = in_json(line), json.dumps(value)[1:-1]
    assert MARKER.sub("@", redact(line)) == line.replace(value, "@")


def test_the_planted_set_is_as_large_as_promised_and_appears_in_no_text_of_all() -> None:
    text = "\n".join(planted_lines())
    assert len(PLANTED) >= 30
    assert planted_in(text) == list(PLANTED)
    assert planted_in(redact(text)) == []
    assert planted_in(json.dumps(redact_value({"lines": planted_lines()}))) == []


@pytest.mark.parametrize(
    ("text", "left"),
    [
        pytest.param(f"\\n{GITHUB}\\n", "\\n@\\n", id="right after an escaped new line"),
        pytest.param(f'\\"{GITHUB}\\"', '\\"@\\"', id="between escaped quotes"),
        pytest.param(f"a\\u003d{GITHUB}", "a\\u003d@", id="right after a letter written as its number"),
        pytest.param(f"?q=a%3D{GITHUB}", "?q=a%3D@", id="right after a code in a URL"),
        pytest.param(f"\x1b[31m{GITHUB}\x1b[0m", "\x1b[31m@\x1b[0m", id="between colours of a terminal"),
        pytest.param(f"é{GITHUB}\ud800", "é@\ud800", id="between letters of other scripts and half a pair"),
        pytest.param(f"x-{GITHUB}", "x-@", id="after a dash"),
        pytest.param(f"{GITHUB}{PLANTED['AWS access key id']}", "@", id="two without a gap"),
        pytest.param("DB_PASS='a b'\nDB_PASS=" + "word" * 3, "DB_PASS='a b'\nDB_PASS=@", id="letters only, in a shell"),
        pytest.param(
            '{"pass' + r'word": "ab\"c1", "n": 1}', '{"password": "@", "n": 1}', id="a value with an escaped quote"
        ),
        pytest.param("password=" + "word" * 5, "password=@", id="more letters than a word has"),
        pytest.param(f"{KEY_BEGIN}\\nshort\\n{KEY_END}\\n", "@\\n", id="a private key of somebody's test"),
        pytest.param(f"login(password='{SHORT}', n=1)", "login(password='@', n=1)", id="an argument"),
        pytest.param(f"login(password={SHORT})", "login(password=@)", id="an argument without quotes"),
        pytest.param(
            f'const pw = {{dbPassword: "{SHORT}"}}', 'const pw = {dbPassword: "@"}', id="a name in camel case"
        ),
        pytest.param(f"token: str = '{LONG}'", "token: str = '@'", id="after a type"),
        pytest.param(f"<password>{SHORT}</password>", "<password>@</password>", id="between tags"),
        pytest.param(f"psql --password {SHORT} -c x", "psql --password @ -c x", id="after an option"),
        pytest.param(f"curl -u ada:{SHORT} localhost", "curl -u ada:@ localhost", id="after a user"),
        pytest.param(f"a?token={LONG}&b=1#c", "a?token=@&b=1#c", id="a parameter ends where the next begins"),
        pytest.param(f"Cookie: a=1; sid={LONG}{LONG}", "Cookie: a=1; sid=@", id="the long one of two cookies"),
        pytest.param(f"{KEY_BEGIN}\n{KEY_LINE}\n{KEY_LINE[:9]}", "@", id="a private key that was cut"),
        pytest.param(f"{KEY_BEGIN}\n{KEY_LINE}\n ... \n{KEY_LINE}\n{KEY_END}.", "@.", id="a private key with a gap"),
        pytest.param(
            f"     1\t{KEY_BEGIN}\n     2\t{KEY_LINE}\n     3\t{KEY_END}\n     4\t",
            "     1\t@\n     4\t",
            id="a private key with numbers of lines",
        ),
    ],
)
def test_wherever_it_stands(text: str, left: str) -> None:
    assert MARKER.sub("@", redact(text)).replace("@@", "@") == left


def test_equal_secrets_get_equal_fingerprints() -> None:
    assert redact(f"{GITHUB} and PASS{'WORD='}{SHORT}! and {GITHUB}.") == (
        f"[REDACTED:github-token:{fingerprint(GITHUB)}] and PASSWORD=[REDACTED:password:{fingerprint(SHORT + '!')}]"
        f" and [REDACTED:github-token:{fingerprint(GITHUB)}]."
    )


def test_positions_are_in_characters_and_name_the_kind() -> None:
    assert find_secrets(f"é😀 {GITHUB} é pwd: {SHORT}") == [
        Secret("github-token", 3, 47),
        Secret("password", 55, 61),
    ]
    assert find_secrets(f"{GITHUB}") == [Secret("github-token", 0, 44)]


# --- what stays -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("commit 9fceb02d0ae598e95dc970b74767f19372d61af8", id="a commit"),
        pytest.param("session 3f0c2a10-7b1e-4c6d-9a52-0c4f5e6d7a8b", id="a UUID"),
        pytest.param("sha256:" + "0123456789abcdef" * 4, id="a digest"),
        pytest.param('"integrity": "sha512-' + "aB3+/x9K" * 10 + 'w=="', id="a hash in a lock file"),
        pytest.param("<img src='data:image/png;base64," + KEY_LINE * 5 + "'>", id="a picture"),
        pytest.param('"signature":"' + KEY_LINE * 4 + '"', id="the signature of a thought"),
        pytest.param("toolu_01A9bC8dE7fG6hJ5kL4mN3pQ2r call_0aB1cD2eF3gH4iJ5kL6mN7oP", id="ids of calls"),
        pytest.param("!function(e,t){var n=e.token||t.key;n.pass=1}(a,b1);", id="minified code"),
        pytest.param('{"input_tokens": 1234, "max_tokens":4096, "token_type": "x1234567"}', id="counts of tokens"),
        pytest.param('{"token": " hello", "logprob": -0.1}', id="a token of a model"),
        pytest.param("Forgot your password? The password is required: see section 3.", id="prose"),
        pytest.param("Password must have 8 characters. Token: none. API key: missing!", id="prose with colons"),
        pytest.param("password = os.environ['DB_PASSWORD1']", id="a variable of the environment"),
        pytest.param("apiKey: process.env.API_KEY_2, secret: config.auth2.secret,", id="a field of something"),
        pytest.param("login(pass" + "word=currentUserPassword, token=refreshtokenofuser)", id="a variable"),
        pytest.param("token = get_token(user1)\npassword = input()", id="a call"),
        pytest.param("constructor(secret: Uint8Array, token: string)", id="a type"),
        pytest.param("API_KEY=$KEY1 TOKEN=${TOKEN2} PASSWORD={{ p1 }} SECRET=<secret-1>", id="placeholders"),
        pytest.param("OPENAI_API_KEY=sk-xxxxxxxxxxxxxxxxxxxxxxxx or sk-your-key-here", id="a form without content"),
        pytest.param("private_key: ~/.ssh/id_ed25519, client_key = ./k8s.key", id="paths of keys"),
        pytest.param("arn:aws:secretsmanager:us-east-1:123456789012:secret:shop-1a2b", id="the name of a secret"),
        pytest.param("primary_key=id1234567 publicKey: abcd12345 keyboard: us1234567", id="keys that open nothing"),
        pytest.param("    --- PASS: TestParse2 (0.01s)", id="a test that passed"),
        pytest.param("bypass=abc12345 compass: abc12345", id="words that end like names"),
        pytest.param("Use bearer authentication-with-rotating-tokens", id="prose about headers"),
        pytest.param(
            "https://user:" + "password@host https://${USER}:${PASS}@host git@host.example:a/b1.git", id="URLs"
        ),
        pytest.param(f"A key begins with {KEY_BEGIN} and ends with {KEY_END}.", id="prose about keys"),
        pytest.param("docker run -u 1000:1000 --user root:root image", id="a user and a group"),
        pytest.param("task-force-of-many-people-and-words risk-sk-learn-of-all-the-others", id="long names"),
        pytest.param(
            "[REDACTED:jwt:0123abcd] pass" + "word=[REDACTED:password:0123abcd]", id="what was redacted before"
        ),
    ],
)
def test_ordinary_text_stays(text: str) -> None:
    assert redact(text) == text
    assert redact(in_json(text)) == in_json(text)


# --- values -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "left"),
    [
        pytest.param({"password": "no " + "form"}, {"password": "@"}, id="a password of any form"),
        pytest.param({"password": "a..." + "${b}xxxx"}, {"password": "@"}, id="a password like no placeholder"),
        pytest.param({"headers": {"Authorization": "Bearer abc"}}, {"headers": {"Authorization": "@"}}, id="a header"),
        pytest.param({"apiKey": ["one key of two", 7]}, {"apiKey": ["@", 7]}, id="a list of keys"),
        pytest.param({"name": "DB_PASSWORD", "value": "plain"}, {"name": "DB_PASSWORD", "value": "@"}, id="a pair"),
        pytest.param({GITHUB: [1, None, True]}, {"@": [1, None, True]}, id="the name of a field"),
        pytest.param(["a", {"b": f"x {GITHUB}"}], ["a", {"b": "x @"}], id="a string deep inside"),
        pytest.param(("a", 1.5), ["a", 1.5], id="a tuple becomes a list"),
        pytest.param({1: {"token": "hello"}}, {1: {"token": "hello"}}, id="a token of a model"),
        pytest.param({"password": "", "secret": "null"}, {"password": "", "secret": "null"}, id="nothing"),
        pytest.param({"api_key": "${API_KEY}"}, {"api_key": "${API_KEY}"}, id="a variable"),
        pytest.param(
            {"password": {"type": "string", "minLength": 8}},
            {"password": {"type": "string", "minLength": 8}},
            id="a schema",
        ),
        pytest.param({"tokens": "1234567890"}, {"tokens": "1234567890"}, id="a count"),
        pytest.param(None, None, id="nothing at all"),
    ],
)
def test_fields_with_telling_names_go_whole(value: Any, left: Any) -> None:
    before = repr(value)
    found = redact_value(value)
    assert json.loads(MARKER.sub("@", json.dumps(found))) == json.loads(json.dumps(left))
    assert repr(value) == before
    assert redact_value(found) == found


def test_fields_stay_in_their_order_and_the_number_of_levels_is_no_matter() -> None:
    assert list(redact_value({"z": {}, "a": 1, "password": "abcd"})) == ["z", "a", "password"]
    deep: Any = {"password": "abcd"}
    for _ in range(20_000):
        deep = [deep]
    found = redact_value(deep)
    while isinstance(found, list):
        [found] = found
    assert found == {"password": f"[REDACTED:password:{fingerprint('abcd')}]"}


# --- whatever comes ---------------------------------------------------------------------------------------------

PIECES = st.one_of(
    st.text(max_size=8),
    st.sampled_from([*planted_lines(), *PLANTED.values()]),
    st.sampled_from('password= api_key=" token: \\n \\" " \' :// : @ & ? -- - _ [REDACTED: ] <secret> ( )'.split()),
)


@given(st.lists(PIECES, max_size=8).map("".join))
def test_redacting_twice_changes_nothing_more(text: str) -> None:
    assert redact(redact(text)) == redact(text)


@given(st.lists(PIECES, max_size=8).map("".join))
def test_what_is_found_lies_in_the_text_in_order(text: str) -> None:
    edges = [edge for secret in find_secrets(text) for edge in (secret.start, secret.end)]
    assert edges == sorted(edges)
    assert all(secret.start < secret.end <= len(text) for secret in find_secrets(text))
    assert bool(edges) == (redact(text) != text)


@given(st.text(), st.sampled_from(sorted(PLANTED)), st.text())
def test_a_secret_on_its_own_line_goes_whatever_is_around(before: str, kind: str, after: str) -> None:
    # A quote or a word above can open something that goes on: then more is redacted, never less.
    assert kind not in planted_in(redact(f"{before}\n\n{LINES[kind]}\n\n{after}"))


@pytest.mark.parametrize("character", [*'a0A -_=:/"\\\n+.@k', "é"])
def test_ten_megabytes_of_one_character(character: str) -> None:
    text = character * 10_000_000
    begun = time.perf_counter()
    assert redact(text) == text
    assert time.perf_counter() - begun < 3  # 0.5 s on a machine that does nothing else


@pytest.mark.parametrize(
    "unit",
    [
        *("-eyJ", "sk-", "key=", "?token=", "password='", "token=(", "cookie:a=", "://a:", "bearer ", "[REDACTED:"),
        *('\\"', KEY_BEGIN, f"{KEY_BEGIN}{KEY_LINE}", "machine a login b password ", GITHUB[:44]),
    ],
)
def test_text_made_to_take_long_takes_as_long_as_its_length(unit: str) -> None:
    text = unit * (1_000_000 // len(unit))
    begun = time.perf_counter()
    redact(text)
    assert time.perf_counter() - begun < 6  # 1 s, as above; what grows with the square takes minutes
