from __future__ import annotations

import json

import pytest

from demerit.proxy.gate import Gate, Headers, backwards, shown_url, upstream_for, url_for
from demerit.proxy.options import Options, Upstream

UP = Upstream(name="up", url="http://127.0.0.1:8080/v1")
KEYED = Upstream(name="up", url="http://127.0.0.1:8080/v1", key="of-the-upstream")
LOCAL = (b"host", b"127.0.0.1:8788")


def gate(host: str = "127.0.0.1", key: str | None = None, upstream: Upstream = UP, **options: object) -> Gate:
    return Gate(Options(upstreams=(upstream,), key=key, **options), host)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1:8788",
        "127.0.0.1",
        "127.9.9.9:80",
        "localhost:8788",
        "LocalHost",
        "localhost.:8788",
        "demerit.localhost:8788",
        "[::1]:8788",
        "[::1]",
        "[::ffff:127.0.0.1]:80",
        "models.example:443",
        "192.168.1.5:8788",
    ],
)
def test_hosts_that_it_answers_to(host: str) -> None:
    rules = gate("192.168.1.5", allowed_hosts=("models.example",))
    assert rules.refusal("GET", "/health", [(b"host", host.encode())]) is None


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param([(b"host", b"evil.example")], id="another name that was pointed here"),
        pytest.param([(b"host", b"127.0.0.1.evil.example")], id="a name that begins like the loopback"),
        pytest.param([(b"host", b"localhost.evil.example:8788")], id="a name that begins like localhost"),
        pytest.param([(b"host", b"evil.example@127.0.0.1")], id="a user before the host"),
        pytest.param([(b"host", b"0.0.0.0:8788")], id="the wildcard it listens at"),
        pytest.param([(b"host", b"192.168.1.5")], id="an address that nobody named"),
        pytest.param([(b"host", b"")], id="an empty host"),
        pytest.param([], id="no host"),
        pytest.param([LOCAL, (b"host", b"evil.example")], id="two hosts"),
        pytest.param([(b"host", b"\xff\xfe")], id="bytes that are no name"),
    ],
)
def test_hosts_that_it_refuses_on_every_path(headers: Headers) -> None:
    for path in ("/health", "/v1/chat/completions", "/metrics"):
        reply = gate("0.0.0.0").refusal("GET", path, headers)
        assert reply is not None
        assert reply.status == 403
        assert json.loads(reply.body)["error"]["code"] == "host_not_allowed"


@pytest.mark.parametrize(
    ("path", "header", "is_in"),
    [
        pytest.param("/v1/models", (b"authorization", b"Bearer secret"), True, id="as a bearer"),
        pytest.param("/v1/models", (b"authorization", b"bearer  secret "), True, id="the scheme in any case"),
        pytest.param("/v1/models", (b"x-api-key", b"secret"), True, id="as x-api-key"),
        pytest.param("/health", (b"x-api-key", b"wrong"), True, id="health asks for none"),
        pytest.param("/v1/models", (b"x-api-key", b"secre"), False, id="its beginning"),
        pytest.param("/v1/models", (b"x-api-key", b"secretx"), False, id="more than it"),
        pytest.param("/v1/models", (b"x-api-key", b"SECRET"), False, id="another case"),
        pytest.param("/v1/models", (b"x-api-key", b""), False, id="nothing"),
        pytest.param("/v1/models", (b"authorization", b"Basic secret"), False, id="another scheme"),
        pytest.param("/v1/models", (b"authorization", b"secret"), False, id="no scheme"),
        pytest.param("/metrics", (b"accept", b"*/*"), False, id="metrics without it"),
        pytest.param("/v1/proxy/status", (b"x-api-key", b"\xff"), False, id="bytes that are no text"),
    ],
)
def test_the_key(path: str, header: tuple[bytes, bytes], is_in: bool) -> None:
    reply = gate(key="secret").refusal("GET", path, [LOCAL, header])
    assert (reply is None) == is_in
    if reply is not None:
        assert reply.status == 401
        assert b"secret" not in reply.body
        assert (b"www-authenticate", b"Bearer") in reply.headers


@pytest.mark.parametrize(
    ("key", "upstream", "sent", "got"),
    [
        pytest.param(
            None,
            UP,
            [(b"authorization", b"Bearer theirs")],
            [(b"authorization", b"Bearer theirs")],
            id="without a key of the proxy the client's goes through",
        ),
        pytest.param(
            None,
            KEYED,
            [(b"authorization", b"Bearer theirs")],
            [(b"authorization", b"Bearer of-the-upstream")],
            id="the upstream's key from the settings wins",
        ),
        pytest.param("secret", UP, [(b"authorization", b"Bearer secret")], [], id="the proxy's key stays here"),
        pytest.param(
            "secret",
            UP,
            [(b"x-api-key", b"secret"), (b"authorization", b"Bearer x")],
            [],
            id="what travels in its two places stays here too",
        ),
        pytest.param(
            "secret",
            UP,
            [(b"x-api-key", b"secret"), (b"x-demerit-upstream-authorization", b"Bearer u")],
            [(b"authorization", b"Bearer u")],
            id="the client brings the upstream's key beside the proxy's",
        ),
        pytest.param(
            "secret",
            KEYED,
            [(b"x-demerit-upstream-authorization", b"Bearer u")],
            [(b"authorization", b"Bearer of-the-upstream")],
            id="but the settings' wins over it",
        ),
        pytest.param(
            "secret",
            UP,
            [(b"x-own", b"key=secret"), (b"cookie", b"k=secret; a=b")],
            [],
            id="a header that repeats the proxy's key somewhere else",
        ),
        pytest.param(
            None,
            UP,
            [
                (b"connection", b"keep-alive, X-Hop"),
                (b"x-hop", b"1"),
                (b"te", b"trailers"),
                (b"transfer-encoding", b"chunked"),
                (b"upgrade", b"h2c"),
                (b"content-length", b"9"),
            ],
            [],
            id="headers of the connection, and those that it names",
        ),
        pytest.param(
            None,
            UP,
            [(b"accept-encoding", b"gzip"), (b"x-own", b"1")],
            [(b"accept-encoding", b"gzip"), (b"x-own", b"1")],
            id="all else goes through in its order",
        ),
        pytest.param(None, UP, [(b"x-demerit-session-id", b"7")], [], id="what was for the proxy alone"),
    ],
)
def test_headers_on_their_way_to_the_upstream(key: str | None, upstream: Upstream, sent: Headers, got: Headers) -> None:
    assert gate(key=key, upstream=upstream).onwards([LOCAL, *sent], upstream, is_read=False) == got


def test_an_answer_that_is_to_be_read_is_asked_for_as_plain_text() -> None:
    headers = gate().onwards([LOCAL, (b"accept-encoding", b"gzip, br")], UP, is_read=True)
    assert headers == [(b"accept-encoding", b"identity")]


def test_headers_on_their_way_back() -> None:
    sent = [
        (b"Content-Type", b"a/b"),
        (b"Connection", b"close, X-Hop"),
        (b"X-Hop", b"1"),
        (b"Set-Cookie", b"a"),
        (b"Set-Cookie", b"b"),
        (b"Transfer-Encoding", b"chunked"),
        (b"Content-Length", b"3"),
    ]
    kept = [(b"content-type", b"a/b"), (b"set-cookie", b"a"), (b"set-cookie", b"b")]
    assert backwards(sent) == [*kept, (b"content-length", b"3")]
    assert backwards(sent, drops_length=True) == kept


@pytest.mark.parametrize(
    ("origins", "origin", "allowed"),
    [
        pytest.param((), b"https://app.example", False, id="no origin is configured"),
        pytest.param(("https://app.example/",), b"https://app.example", True, id="the configured one"),
        pytest.param(("https://app.example",), b"https://app.example.evil", False, id="one that begins like it"),
        pytest.param(("*",), b"https://any.example", True, id="all"),
        pytest.param(("https://app.example",), None, False, id="a request of no page"),
    ],
)
def test_pages_of_other_sites(origins: tuple[str, ...], origin: bytes | None, allowed: bool) -> None:
    rules = gate(key="secret", cors_origins=origins)
    headers = [LOCAL, *([(b"origin", origin)] if origin is not None else [])]
    asked = rules.preflight("OPTIONS", headers)
    assert (asked is not None) == allowed
    assert (rules.refusal("OPTIONS", "/v1/models", headers) is None) == allowed, "a preflight shows no key"
    assert (rules.cors(headers) != []) == allowed
    assert rules.refusal("POST", "/v1/models", headers) is not None, "the request itself does"


@pytest.mark.parametrize(
    ("base", "path", "query", "url"),
    [
        ("http://a:1/v1", "/v1/chat/completions", "", "http://a:1/v1/chat/completions"),
        ("http://a:1/v1", "/v1/models", "x=1&y=%20", "http://a:1/v1/models?x=1&y=%20"),
        ("http://a:1", "/v1/models", "", "http://a:1/models"),
        ("http://a:1/v1", "/props", "", "http://a:1/props"),
        ("http://a:1/v1", "/chat/completions", "", "http://a:1/v1/chat/completions"),
        ("http://a:1/v1", "/models/a", "", "http://a:1/v1/models/a"),
        ("http://a:1/v1", "/v10/x", "", "http://a:1/v10/x"),
        ("https://a/api/v1/", "/v1/models/a%2Fb", "", "https://a/api/v1/models/a%2Fb"),
        (
            "https://a/openai/gpt",
            "/v1/chat/completions",
            "api-version=1",
            "https://a/openai/gpt/chat/completions?api-version=1",
        ),
        ("http://a:1/v1", "/v1//evil.example/x", "", "http://a:1/v1//evil.example/x"),
        ("http://a:1/v1", "//evil.example/x", "", "http://a:1//evil.example/x"),
    ],
)
def test_where_a_path_lies_at_an_upstream(base: str, path: str, query: str, url: str) -> None:
    assert url_for(Upstream(name="up", url=base), path, query) == url


def test_the_first_upstream_that_names_a_model_has_it() -> None:
    small = Upstream(name="small", url="http://a", models=("qwen*", "llama-3"))
    large = Upstream(name="large", url="http://b", models=("qwen-large", "gpt-*"))
    both = (small, large)
    found = {model: upstream_for(model, both) for model in ("qwen-large", "llama-3", "gpt-5", "llama-33", "QWEN", "")}
    assert found == {"qwen-large": small, "llama-3": small, "gpt-5": large, "llama-33": None, "QWEN": None, "": None}
    assert upstream_for("anything", (small,)) is small


def test_a_url_is_shown_without_what_may_be_secret() -> None:
    assert shown_url("https://me:pass@a.example:8/v1?key=1#x") == "https://a.example:8/v1"
