"""What a terminal shows of a proxy's status, whatever that is, and how a proxy is followed."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import StringIO
from threading import Thread
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from demerit import dashboard
from demerit.dashboard import NoProxy, follow, kept, shown
from demerit.defects import COUNTERS, DefectLedger, LoopGuardTrip
from demerit.proxy.exchange import Record
from demerit.proxy.status import InFlight, UpstreamStatus, status
from demerit.store.guarded import CountRow

SINCE = datetime(2026, 3, 2, 12, tzinfo=UTC)


def document(fill: Callable[[DefectLedger], None] = lambda ledger: None, **around: Any) -> dict[str, Any]:
    ledger = DefectLedger(SINCE)
    fill(ledger)
    made = status(ledger, uptime_s=8000, version="1.2.3", guard_mode="note", **around)
    found: dict[str, Any] = json.loads(msgspec.json.encode(made))
    return found


def text(of: object, width: int = 80, explain: bool = False) -> str:
    assert isinstance(of, dict)
    return "\n".join(line.plain for line in shown(of, width, explain)) + "\n"


def busy(ledger: DefectLedger) -> None:
    for n in range(1000):
        ledger.record_request("coder")
        ledger.record_turn("coder", scanned=1, completed_turns=1, repeats_seen=int(n < 10))
    for _ in range(3):
        ledger.record_loop_guard_trip("coder", LoopGuardTrip.loop, counts_request=False)
    ledger.record_loop_guard_trip("coder", LoopGuardTrip.stagnation, counts_request=False)
    for n in range(5):
        ledger.record_repair("coder", succeeded=n < 3)
        ledger.record_empty_response("coder", reasoning_only=n < 2)
    ledger.record_repeats("coder", identical=True, not_evaluated=False, rescued=False)
    ledger.record_turn("coder", client_aborts=2)
    ledger.record_request("good")


# --- what is shown ------------------------------------------------------------------------------------------


def test_models_with_something_to_report_have_their_rows() -> None:
    """The intervals are Wilson's, worked out by hand from n hits of 1,000, of 10 and of 5."""
    assert text(document(busy)) == (
        "demerit proxy 1.2.3  loop guard: note  up 2 h 13 min\n"
        "\n"
        "1 of 2 models with something to report; 1,001 requests in all, since 2026-03-02\n"
        "12:00 UTC\n"
        "\n"
        "coder  1,000 requests\n"
        "  loop guard trips              4  0.4 % (0.16-1) of 1,000 scanned\n"
        "    loops                       3  0.3 % (0.1-0.88) of 1,000 scanned\n"
        "    stagnations                 1  0.1 % (0.018-0.56) of 1,000 scanned\n"
        "  repairs        3 of 5 succeeded  60 % (23-88) of 5 repairs attempted\n"
        "    attempted                   5\n"
        "  empty responses  5 (2 reasoning-only)\n"
        "    0.5 % (0.21-1.2) of 1,000 completed turns\n"
        "  around the answers\n"
        "    client aborts               2  0.2 % (0.055-0.73) of 1,000 requests\n"
        "  seen in the conversations\n"
        "    identical result repeats    1  10 % (1.8-40) of 10 repeats seen\n"
        "\n"
        "--explain says what each row counts\n"
    )


@pytest.mark.parametrize(
    ("found", "state"),
    [
        pytest.param(document(), "nothing recorded yet, since 2026-03-02 12:00 UTC", id="nothing was counted"),
        pytest.param({}, "nothing recorded yet", id="a document without anything"),
        pytest.param(
            {"models": {f"m{n}": {"defects": {"requests": 600}} for n in range(2)}},
            "all clean: 1,200 requests, 2 models",
            id="requests and nothing else",
        ),
        pytest.param(
            {"models": {"m": {"defects": {"requests": 1}, "turns": {"client_aborts": 1, "scanned": 1}}}},
            "all clean: 1 request, 1 model",
            id="a client that hung up is no fault of the model's",
        ),
    ],
)
def test_the_state_in_one_line(found: dict[str, Any], state: str) -> None:
    lines = text(found, 120).splitlines()
    assert state in lines
    assert not any("--explain" in line for line in lines)


@pytest.mark.parametrize(
    ("defects", "turns", "row"),
    [
        pytest.param({"repeats_rescued": 1}, {}, "    repeats rescued             1", id="a repeat"),
        pytest.param({}, {"upstream_refusals": 1}, "    upstream refusals           1", id="an upstream that refused"),
        pytest.param({}, {"agent_loops": 1}, "    agent loops                 1", id="an agent's own guard"),
        pytest.param({"new_kind": 1234}, {}, "  new kind                  1,234", id="a counter of a newer proxy"),
    ],
)
def test_a_model_is_shown_for(defects: dict[str, int], turns: dict[str, int], row: str) -> None:
    assert row in text({"models": {"m": {"defects": defects, "turns": turns}}}).splitlines()


def test_what_goes_on_and_what_ended_last() -> None:
    found = document(
        upstreams=[UpstreamStatus("local", "http://127.0.0.1:1/v1", ("*",), 2, 1, 4, 1, "answered 503")],
        in_flight=[InFlight(f"m{n}", "answering", 100.0 - n, True) for n in range(7)],
        recent=[
            Record(SINCE, "m", "local", True, 200, "clean", None, 0.2, 3.04),
            Record(SINCE, "m", None, False, 400, "guard_refused", LoopGuardTrip.loop, None, 0.001),
        ],
        uncounted_paths={"/v1/responses": 2},
        stage_failures={"classify": 1},
        trips_log=(3, 0),
    )
    assert text(found, 100) == (
        "demerit proxy 1.2.3  loop guard: note  up 2 h 13 min  7 in flight\n"
        "upstream local  http://127.0.0.1:1/v1  serves 2 of 4  1 waiting  1 refusal, last: it answered 503\n"
        "\n"
        "nothing recorded yet, since 2026-03-02 12:00 UTC\n"
        "\n"
        "passed through and in no counter: /v1/responses 2\n"
        "steps of the proxy that failed and were passed over: classify 1\n"
        "entries of the trips log that could not be kept: 3\n"
        "\n"
        "in flight\n"
        "  answering  1 min 40 s  m0\n"
        "  answering  1 min 39 s  m1\n"
        "  answering  1 min 38 s  m2\n"
        "  answering  1 min 37 s  m3\n"
        "  answering  1 min 36 s  m4\n"
        "  and 2 more\n"
        "\n"
        "ended last\n"
        "  12:00:00  m  400  guard refused  tripped: loop  0.0 s\n"
        "  12:00:00  m  200  clean  3.0 s\n"
    )


def test_names_of_models_are_cleaned_and_cut() -> None:
    hostile = "\x1b]0;owned\x07evil\x1b[31m\nname [bold]" + "x" * 100
    shows = text({"models": {hostile: {"defects": {"requests": 2, "stream_errors": 1}}}})
    assert "evil name [bold]" + "x" * 30 + "..  2 requests\n" in shows
    assert "\x1b" not in shows


def test_explained_are_the_rows_that_are_shown() -> None:
    words = " ".join(text(document(busy), 80, explain=True).split())
    for name in ("loop_guard_stagnations", "reasoning_only", "client_aborts", "identical_result_repeats"):
        assert f"{name.replace('_', ' ')}: {COUNTERS[name].says}" in words
    assert COUNTERS["stream_errors"].says not in words
    assert "--explain" not in words


def test_with_nothing_to_show_all_sixteen_are_explained() -> None:
    words = " ".join(text({}, 80, explain=True).split())
    assert [name for name, counter in COUNTERS.items() if counter.says in words] == list(COUNTERS)[:16]


KEYS = st.sampled_from(
    (
        "models defects turns rates name value low high denominator in_flight recent upstreams uptime_s started_at at "
        "age_s duration_s phase ended status trip model url refusals last_error uncounted_paths trips_log lost "
        "loop_guard_trips requests repairs_attempted empty_responses reasoning_only repeats_rescued agent_loops"
    ).split()
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.just("9999-12-31T23:59:59-14:00"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS | st.text(max_size=40), inner, max_size=6),
    max_leaves=25,
)


@given(
    st.dictionaries(KEYS, VALUES, max_size=8), st.dictionaries(st.text(), VALUES), st.integers(0, 130), st.booleans()
)
def test_any_document_is_shown_within_the_width(found: Any, models: Any, width: int, explain: bool) -> None:
    for line in shown({**found, "models": models}, width, explain):
        assert cell_len(line.plain) <= max(width, 24)


@pytest.mark.parametrize("width", [24, 40, 80])
def test_a_full_document_fits(width: int) -> None:
    for explain in (False, True):
        assert max(map(cell_len, text(document(busy), width, explain).splitlines())) <= width


# --- following it -------------------------------------------------------------------------------------------


class Answer:
    """An answer of a proxy to any request: a status and a body, sent in chunks."""

    def __init__(self, status: int, *chunks: bytes) -> None:
        self.status = status
        self.chunks = chunks


class Server(ThreadingHTTPServer):
    """Gives its answers one after the other, the last one again and again."""

    daemon_threads = True

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, str | None]] = []
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def do_GET(self) -> None:
        self.server.asked.append((self.path, self.headers.get("Authorization")))
        answers = self.server.answers
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        self.send_response(answer.status)
        self.send_header("Transfer-Encoding", "chunked")
        self.send_header("Connection", "close")
        self.end_headers()
        for chunk in (*answer.chunks, b""):
            self.wfile.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def serving() -> Iterator[Callable[..., Server]]:
    started: list[tuple[Server, Thread]] = []

    def serve(*answers: Answer) -> Server:
        server = Server(*answers)
        thread = Thread(target=server.serve_forever, args=(0.01,))
        started.append((server, thread))
        thread.start()
        return server

    yield serve
    for server, thread in started:
        server.shutdown()
        thread.join()
        server.server_close()


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


def console(file: StringIO) -> Console:
    is_terminal = isinstance(file, Terminal)
    return Console(
        file=file, width=80, height=40, force_terminal=is_terminal, force_interactive=is_terminal, highlight=False
    )


def encoded(found: dict[str, Any]) -> bytes:
    return json.dumps(found).encode()


def test_a_pipe_gets_it_once_and_plain(serving: Callable[..., Server]) -> None:
    server = serving(Answer(200, encoded(document(busy))))
    out = StringIO()
    follow(server.url, "sesame", console(out))
    assert out.getvalue() == text(document(busy))
    assert server.asked == [("/v1/proxy/status", "Bearer sesame")]


def test_once_in_a_terminal_ends_too(serving: Callable[..., Server], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    clean = document(lambda ledger: ledger.record_request("m"))
    server = serving(Answer(200, encoded(clean)))
    out = Terminal()
    follow(server.url, None, console(out), once=True)
    assert "\x1b[32mall clean" in out.getvalue()
    monkeypatch.setenv("NO_COLOR", "1")
    out = Terminal()
    follow(server.url, None, console(out), once=True)
    assert "all clean" in out.getvalue()
    assert "\x1b[32m" not in out.getvalue()
    assert server.asked == [("/v1/proxy/status", None)] * 2


def test_a_terminal_is_live_waits_for_a_proxy_that_went_and_says_why_it_ends(
    serving: Callable[..., Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setattr(dashboard, "RETRY_S", 0)
    first, second, third = (b"data: " + encoded({"version": version}) + b"\n\n" for version in ("1", "2", "3"))
    server = serving(
        Answer(200, first, b": waiting\n\n", second[:9], second[9:]),
        Answer(503, b"busy"),
        Answer(200, third),
        Answer(401, b"{}"),
    )
    out = Terminal()
    with pytest.raises(NoProxy, match=f"the proxy at {server.url} wants a key: put it into the setting proxy_key"):
        follow(server.url, None, console(out))
    said = out.getvalue()
    places = [
        said.index(words)
        for words in (
            "demerit proxy 1",
            "demerit proxy 2",
            f"the proxy at {server.url} ended; trying again",
            f"what answers at {server.url} says 503; trying again",
            "demerit proxy 3",
        )
    ]
    assert places == sorted(places)
    assert {path for path, _ in server.asked} == {"/v1/proxy/status/stream"}


@pytest.mark.parametrize("out", [StringIO, Terminal])
@pytest.mark.parametrize(
    ("answer", "says"),
    [
        pytest.param(Answer(401), "wants another key: put it into the setting proxy_key", id="another key"),
        pytest.param(Answer(403), "does not answer to that name: add it to its setting allowed_hosts", id="a name"),
        pytest.param(Answer(404, b"{}"), "is no demerit proxy; say where it is with --url", id="no such path"),
        pytest.param(Answer(200, b"data: <p>\n\n"), "is no demerit proxy; say where it is with --url", id="no JSON"),
        pytest.param(Answer(200, b"data: []\n\n"), "is no demerit proxy; say where it is with --url", id="no object"),
        pytest.param(
            Answer(500), "says 500; start one with demerit proxy --upstream URL, or say where it is", id="an error"
        ),
    ],
)
def test_what_is_no_proxy_or_does_not_let_us_see_it(
    serving: Callable[..., Server], answer: Answer, says: str, out: type[StringIO], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    server = serving(answer)
    with pytest.raises(NoProxy) as raised:
        follow(server.url, "guess", console(out()))
    assert server.url in str(raised.value)
    assert says in str(raised.value)
    assert "guess" not in str(raised.value)


def test_where_nobody_listens_it_is_said_what_to_do() -> None:
    with socket.socket() as bound:  # bound and not listening: the port is nobody's, and stays so
        bound.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{bound.getsockname()[1]}"
        with pytest.raises(NoProxy) as raised:
            follow(url, None, console(StringIO()))
    assert str(raised.value) == (
        f"no proxy answers at {url} (Connection refused); start one with demerit proxy --upstream URL, "
        "or say where it is with --url"
    )


def test_counts_of_the_store_add_up_over_hours_and_versions() -> None:
    counts = [
        CountRow(7, "m", "1", "requests", 3),
        CountRow(7, "m", "1", "streamed_turns", 3),
        CountRow(8, "m", "2", "requests", 1),
        CountRow(8, "m", "2", "streamed_turns", 1),
        CountRow(8, "m", "2", "stream_errors", 1),
        CountRow(8, "m", "2", "of_a_newer_version", 5),
        CountRow(8, "n", "2", "requests", 2),
    ]
    document = kept(counts, datetime(2026, 12, 1, tzinfo=UTC))
    assert document["models"]["m"]["defects"]["requests"] == 4
    rates = {rate["name"]: (rate["numerator"], rate["denominator"]) for rate in document["models"]["m"]["rates"]}
    assert rates["stream_errors/streamed_turns"] == (1, 4)
    lines = "\n".join(line.plain for line in shown(document, 120))
    assert "1 of 2 models with something to report; 6 requests in all, since 2026-12-01 00:00 UTC" in lines
    assert "25 %" in lines


def test_the_model_with_most_to_report_comes_first() -> None:
    counts = [CountRow(7, model, "1", "stream_errors", n) for model, n in (("few", 1), ("most", 9), ("some", 3))]
    lines = [line.plain for line in shown(kept(counts, SINCE), 80)]
    assert [line.split()[0] for line in lines if line.startswith(("few", "most", "some"))] == ["most", "some", "few"]


def test_a_low_window_says_how_much_more_there_is() -> None:
    lines = [Text(f"line {number}") for number in range(30)]
    console = Console(file=StringIO(), width=60, height=10)
    console.print(dashboard._fitting(lines, console))
    told = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert told == [
        *(f"line {number}" for number in range(8)),
        "... 22 more lines: a taller window or --once shows them",
    ]
    console.print(dashboard._fitting(lines[:9], console))
    assert "more lines" not in "".join(console.file.getvalue().splitlines()[9:])  # type: ignore[attr-defined]
