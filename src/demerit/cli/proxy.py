"""`demerit proxy`: the guarded endpoint, with `demerit proxy dashboard` and `demerit proxy trips` to look at it."""

from __future__ import annotations

import errno
import ipaddress
import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple
from urllib.parse import urlsplit

import typer
from typer import Option
from typer.core import TyperGroup

from demerit.cli.app import Debug, Misuse, Stopped, app, put, say, write
from demerit.cli.choosing import opened, put_json

if TYPE_CHECKING:
    from demerit.config import Settings
    from demerit.listing import Pages
    from demerit.proxy.options import Options, Upstream

_PROBE_S = 2.0
_PROBE_BYTES = 4 << 20
_MODELS_NAMED = 3
_MOST_DAYS = 90
"""Days that the trips log reaches back, as the store keeps them."""
_KEY_BYTES = 32

_MODES = {
    "off": "off, requests are not looked at for loops",
    "note": "note, a request that goes round in circles is forwarded with a short note to the model",
    "refuse": "refuse, a request that goes round in circles is answered with 400",
}


class _Group(TyperGroup):
    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if re.match(r"https?://|[\w.-]+:\d", args[0]):
            raise Misuse(f"a URL goes behind --upstream: demerit proxy --upstream {args[0]}")
        return super().resolve_command(ctx, args)


group = typer.Typer(cls=_Group, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
app.add_typer(group, name="proxy")


@group.callback()
def proxy(
    context: typer.Context,
    upstream: Annotated[
        list[str] | None,
        Option(
            metavar="URL",
            help="Base URL of an OpenAI-compatible server. May be repeated, each but the last as GLOB=URL for the "
            "models that it has.",
        ),
    ] = None,
    host: Annotated[str | None, Option(metavar="ADDRESS", help="Listen there, in place of 127.0.0.1.")] = None,
    port: Annotated[int | None, Option(metavar="PORT", help="Listen there, in place of 8788.")] = None,
    loop_guard_mode: Annotated[
        str | None, Option(metavar="MODE", help="What a loop leads to: off, note (unless set otherwise) or refuse.")
    ] = None,
    debug: Debug = False,
) -> int:
    """Put a guarded endpoint in front of a model server: loops are noted or refused, failures counted.

    Clients change their base URL and nothing else. Ctrl-C ends it. docs/proxy.md tells all of it.
    """
    if context.invoked_subcommand is not None:
        return 0
    from demerit.config import BadSetting, load

    try:
        settings = load(
            os.environ,
            upstreams=upstream or None,
            proxy_host=host,
            proxy_port=port,
            loop_guard_mode=loop_guard_mode,
        )
        options, key = _options(settings)
    except BadSetting as error:
        raise Misuse(str(error)) from None
    lines = list(_told(settings, options, key, _probe(options.upstreams)))
    with suppress(Stopped, KeyboardInterrupt):
        _serve(settings, options, lines)
    return 0


def _serve(settings: Settings, options: Options, lines: Sequence[str]) -> None:
    """Run the proxy until it is stopped; what there is to say is said as soon as it listens."""
    from demerit.proxy.app import serve
    from demerit.store import StoreError

    listens = False

    def announce() -> None:
        nonlocal listens
        listens = True
        write(lambda: put("".join(f"{line}\n" for line in lines).encode("utf-8", "replace")))

    try:
        serve(options, settings.proxy_host, settings.proxy_port, settings.database_url, announce)
    except StoreError as error:
        raise Misuse(str(error)) from None
    except OSError as error:
        if listens:
            raise
        raise Misuse(_cannot_listen(error, settings.proxy_host, settings.proxy_port)) from None


def _cannot_listen(error: OSError, host: str, port: int) -> str:
    from socket import gaierror

    if error.errno == errno.EADDRINUSE:
        return f"port {port} of {host} is taken; stop what listens there, or take another one with --port"
    if error.errno in (errno.EACCES, errno.EPERM):
        return f"port {port} of {host} is not for every user; take one above 1023 with --port"
    if isinstance(error, gaierror) or error.errno == errno.EADDRNOTAVAIL:
        return f"{host} is no address of this machine; give one of its own with --host"
    return f"nothing can listen at {host}, port {port} ({error.strerror or error}); try others with --host and --port"


# --- what the proxy goes by -------------------------------------------------------------------------------------


class _Key(NamedTuple):
    """What clients have to show, and where it was found."""

    text: str
    path: Path | None = None
    """The file that keeps it; None: the settings have it."""
    is_new: bool = False


def _options(settings: Settings) -> tuple[Options, _Key | None]:
    """What the proxy goes by, and the key of its clients. Raises BadSetting or Misuse where something is missing."""
    from demerit.config import key_of
    from demerit.loops import COSTLY, READ_ONLY, GuardConfig
    from demerit.proxy.options import Options, Upstream

    if not settings.upstreams:
        raise Misuse(
            "no model server is named; say where it is: demerit proxy --upstream http://127.0.0.1:8080/v1, or with the "
            "setting upstreams"
        )
    upstreams = tuple(
        Upstream(
            name=one.name,
            url=one.url,
            models=one.models,
            key=key_of(one, os.environ),
            max_inflight=one.max_inflight,
            embedding_models=one.embedding_models,
        )
        for one in settings.upstreams
    )
    for one in upstreams:
        if _is_itself(one.url, settings.proxy_host, settings.proxy_port):
            raise Misuse(
                f"the upstream {one.name} would be this proxy itself; name the model server, or another --port"
            )
    guard = GuardConfig(
        repeat_limit=_limit(settings.repeat_limit),
        read_only_limit=_limit(settings.read_only_limit),
        stagnation_limit=_limit(settings.stagnation_limit),
        read_only=settings.read_only_tools or READ_ONLY,
        costly=settings.costly_tools or COSTLY,
    )
    key = _key(settings)
    options = Options(
        upstreams=upstreams,
        guard_mode=settings.loop_guard_mode,
        guard=guard,
        key=None if key is None else key.text,
        allowed_hosts=settings.allowed_hosts,
        cors_origins=settings.cors_origins,
        body_limit_bytes=settings.body_limit_mb << 20,
        connect_s=settings.connect_timeout_s,
        first_byte_s=settings.first_byte_timeout_s,
        idle_s=settings.idle_timeout_s,
        keepalive_s=settings.keepalive_s,
        queue=settings.queue_size,
        queue_wait_s=settings.queue_wait_s,
    )
    return options, key


def _limit(limit: int | str) -> int | None:
    return limit if isinstance(limit, int) else None


def _is_itself(url: str, host: str, port: int) -> bool:
    parts = urlsplit(url)
    there = parts.port or (443 if parts.scheme == "https" else 80)
    name = parts.hostname or ""
    return there == port and (name == host or (_is_loopback(name) and (_is_loopback(host) or _is_any(host))))


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _is_any(host: str) -> bool:
    return host in ("0.0.0.0", "::")


# --- the key ----------------------------------------------------------------------------------------------------


def _key(settings: Settings) -> _Key | None:
    """What clients have to show; None on the loopback, unless the settings have a key."""
    if settings.proxy_key:
        return _Key(settings.proxy_key)
    if _is_loopback(settings.proxy_host):
        return None
    from secrets import token_urlsafe

    path = _key_file()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        key = token_urlsafe(_KEY_BYTES)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
            file.write(f"{key}\n")
        return _Key(key, path, is_new=True)
    except FileExistsError:
        return _Key(_kept_key(path), path)
    except OSError as error:
        raise Misuse(
            f"{path}: no key can be kept there ({error.strerror}); give one in the setting proxy_key"
        ) from None


def _key_file() -> Path:
    import platformdirs

    return platformdirs.user_data_path("demerit", appauthor=False) / "proxy.key"


def _kept_key(path: Path) -> str:
    """The key in its file. Raises Misuse where the file holds none."""
    try:
        text = path.read_bytes()[:4096].decode("ascii", "replace").strip()
        if os.name == "posix" and path.stat().st_mode & 0o077:
            path.chmod(0o600)
            say(f"others could read {path}, and cannot any more; delete it for a new key if they may have")
    except OSError as error:
        raise Misuse(f"{path}: the key cannot be read ({error.strerror}); delete the file for a new one") from None
    if not re.fullmatch(r"[!-~]{16,}", text):
        raise Misuse(f"{path} holds no key; delete it for a new one, or give one in the setting proxy_key")
    return text


# --- what it says -----------------------------------------------------------------------------------------------


def _base(host: str, port: int) -> str:
    """Where clients on this machine reach the proxy."""
    if _is_any(host):
        host = "127.0.0.1" if host == "0.0.0.0" else "::1"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _told(settings: Settings, options: Options, key: _Key | None, answers: Sequence[str]) -> Iterator[str]:
    """What the proxy says when it has begun to listen. answers: what each upstream did when it was asked."""
    from demerit import __version__
    from demerit.render import clean

    base = _base(settings.proxy_host, settings.proxy_port)
    yield f"demerit {__version__} listens at {base}/v1"
    yield ""
    for upstream, answer in zip(options.upstreams, answers, strict=True):
        name = "" if upstream.name in upstream.url else f"{clean(upstream.name)}, "
        yield f"  upstream  {name}{clean(upstream.url)}: {answer}"
    yield f"  guard     {_MODES[options.guard_mode]}"
    if key is not None and key.path is None:
        yield "  key       the one in the settings (proxy_key); clients give it as their API key"
    elif key is not None:
        kept = clean(str(key.path))
        yield f"  key       {f'{key.text}, shown this once and kept in {kept}' if key.is_new else f'in {kept}'}"
        yield "            clients give it as their API key"
    if _is_any(settings.proxy_host):
        names = ", ".join(map(clean, options.allowed_hosts))
        if names:
            yield f"  hosts     other machines reach it under {names}"
        else:
            yield "  hosts     none yet: put this machine's name or address, as others know it, into allowed_hosts"
    yield f"  watch     demerit proxy dashboard --url {base}, {base}/v1/proxy/status or {base}/metrics"
    yield ""
    yield "Point a client at it:"
    for client, setting in _clients(f"{base}/v1", has_key=key is not None):
        yield f"  {client:<17}  {setting}"


def _clients(base: str, has_key: bool) -> Iterator[tuple[str, str]]:
    key = ", api_key=KEY" if has_key else ""
    yield "most", f"OPENAI_BASE_URL={base}" + (" OPENAI_API_KEY=KEY" if has_key else "")
    yield "OpenAI's library", f'OpenAI(base_url="{base}"{key})'
    yield "LangChain", f'ChatOpenAI(base_url="{base}"{key}, model=MODEL)'
    yield "LiteLLM", f'completion(model="openai/MODEL", api_base="{base}"{key}, ...)'
    yield "aider", f"aider --openai-api-base {base} --model openai/MODEL"
    yield "Cline, Roo Code", f"API Provider: OpenAI Compatible, Base URL: {base}"
    yield "Continue", f"in config.yaml: provider: openai, apiBase: {base}"
    yield "opencode", f'in opencode.json, options of a provider: "baseURL": "{base}"'


# --- whether an upstream is there -------------------------------------------------------------------------------


def _probe(upstreams: Sequence[Upstream]) -> list[str]:
    """What each upstream does when it is asked for its models, in words and in their order."""
    import asyncio

    async def ask_all() -> list[str]:
        return list(await asyncio.gather(*map(_answer_of, upstreams)))

    return asyncio.run(ask_all())


class _Answer(NamedTuple):
    """What came back from an upstream."""

    status: int
    models: list[str] | None
    """Names; None: what came is no list of models."""


async def _answer_of(upstream: Upstream) -> str:
    import aiohttp

    from demerit.render import clean

    timeout = aiohttp.ClientTimeout(total=_PROBE_S)
    headers = {} if upstream.key is None else {"Authorization": f"Bearer {upstream.key}"}
    try:
        async with aiohttp.ClientSession(timeout=timeout, headers=headers) as session:
            answer = await _models(session, upstream.url)
            if answer.status == 404 and not upstream.url.endswith("/v1"):
                with_version = await _models(session, f"{upstream.url}/v1")
                if with_version.models is not None:
                    return f"its API begins one step on; stop this and give {upstream.url}/v1"
    except TimeoutError:
        return f"no answer within {_PROBE_S:g} s; the proxy starts all the same, and requests get 504 until it is there"
    except (aiohttp.ClientError, OSError, ValueError) as error:
        return f"not there ({clean(_reason(error))}); the proxy starts all the same, and requests get 502 until it is"
    return _in_words(answer, has_key=upstream.key is not None)


def _reason(error: Exception) -> str:
    """Why nobody answered, as the system words it."""
    cause = getattr(error, "os_error", error)
    number = getattr(cause, "errno", None)
    if number and number > 0:
        return os.strerror(number)  # that of asyncio tells the address once more
    return getattr(cause, "strerror", None) or str(cause) or type(cause).__name__


async def _models(session: Any, base: str) -> _Answer:
    import msgspec

    async with session.get(f"{base}/models", allow_redirects=False) as response:
        body = b""
        async for chunk in response.content.iter_any():
            body += chunk
            if len(body) > _PROBE_BYTES:
                break
        names: list[str] | None = None
        if response.status == 200:
            try:
                found = msgspec.json.decode(body)
                names = [str(model["id"]) for model in found["data"]]
            except (msgspec.MsgspecError, ValueError, TypeError, KeyError, RecursionError):
                names = None
        return _Answer(response.status, names)


def _in_words(answer: _Answer, has_key: bool) -> str:
    from demerit.render import clean, count

    if answer.models is not None:
        names = ", ".join(clean(name[:60]) for name in answer.models[:_MODELS_NAMED])
        more = ", ..." if len(answer.models) > _MODELS_NAMED else ""
        return f"answers, {count(len(answer.models), 'model')}" + (f" ({names}{more})" if names else "")
    if answer.status in (401, 403):
        return f"answers, and {'refuses the key in the settings' if has_key else 'wants a key, which clients bring'}"
    if answer.status == 200:
        return "answers, but not with a list of models; is this the base of an OpenAI-compatible API?"
    return f"answers, but with {answer.status} when it is asked for its models"


# --- looking at it ----------------------------------------------------------------------------------------------


@group.command()
def dashboard(
    url: Annotated[
        str | None, Option(metavar="URL", help="Where the proxy is, in place of what the settings say of this machine.")
    ] = None,
    once: Annotated[bool, Option("--once", help="Print what it shows now, and end.")] = False,
    explain: Annotated[bool, Option("--explain", help="Say what each row counts.")] = False,
    since: Annotated[
        str | None,
        Option(
            metavar="SPAN", help="What was counted in these days up to today, from the database: no proxy has to run."
        ),
    ] = None,
    debug: Debug = False,
) -> int:
    """Show what a running proxy is doing and has counted, live until Ctrl-C; or what all have, over some days."""
    if since is not None:
        if url or once:
            raise Misuse(
                "--since reads the database, and --url and --once are for a running proxy: leave out one of both"
            )
        return _over(since, explain)
    from demerit.config import BadSetting, load

    try:
        settings = load(os.environ)
    except BadSetting as error:
        raise Misuse(str(error)) from None
    there = _proxy_url(url) if url else _base(settings.proxy_host, settings.proxy_port)
    from demerit.dashboard import NoProxy, follow
    from demerit.terminal import console_for

    try:
        with suppress(Stopped, KeyboardInterrupt):
            follow(there, _key_for(there, settings), console_for(sys.stdout, os.environ), once=once, explain=explain)
    except NoProxy as error:
        raise Misuse(str(error)) from None
    return 0


def _over(since: str, explain: bool) -> int:
    """Show what was counted in some days."""
    from demerit.cli.choosing import days_of

    days = days_of(since)
    if days is None or days < 1:
        raise Misuse(f"--since {since!r} is no span of days; write it like 30d or 4w")
    with opened() as at:
        from demerit import dashboard as view
        from demerit.store.guarded import model_counts
        from demerit.terminal import console_for

        begin = at.now.astimezone(UTC) - timedelta(days - 1)
        begin = begin.replace(hour=0, minute=0, second=0, microsecond=0)
        hours = (int(begin.timestamp()) // 3600, int(at.now.timestamp()) // 3600 + 1)
        with at.store.reading() as connection:
            document = view.kept(model_counts(connection, *hours), begin)
        console = console_for(sys.stdout, os.environ)
        write(lambda: view.print_lines(console, view.shown(document, console.width, explain)))
    return 0


def _proxy_url(text: str) -> str:
    url = text if "://" in text else f"http://{text}"
    try:
        parts = urlsplit(url)
        if parts.scheme in ("http", "https") and parts.hostname and parts.port != 0 and "@" not in parts.netloc:
            return f"{parts.scheme}://{parts.netloc}"
    except ValueError:
        pass
    raise Misuse("--url must be where the proxy listens, like http://127.0.0.1:8788")


def _key_for(url: str, settings: Settings) -> str | None:
    """What to show to the proxy there. The key in the file is this machine's, and shown to no other."""
    if settings.proxy_key:
        return settings.proxy_key
    host = urlsplit(url).hostname or ""
    path = _key_file()
    return _kept_key(path) if (_is_loopback(host) or host == settings.proxy_host) and path.is_file() else None


@group.command()
def trips(
    since: Annotated[str, Option(metavar="SPAN", help=f"These days up to today, {_MOST_DAYS} at most.")] = "30d",
    json: Annotated[bool, Option("--json", help="Print one JSON object; docs/proxy.md has its keys.")] = False,
    debug: Debug = False,
) -> int:
    """Show how often the loop guard decided to act, by day, model, version and mode; no proxy has to run."""
    days = _days(since)
    with opened() as at:
        from demerit.store import guarded

        first = at.now.astimezone(UTC).date() - timedelta(days - 1)
        begin = datetime(first.year, first.month, first.day, tzinfo=UTC)
        with at.store.reading() as connection:
            rows = guarded.trips(connection, int(begin.timestamp()) * 1_000_000)
        found = [_figures(row) for row in rows]
        if json:
            listed = [dict(zip(_COLUMNS, values, strict=True)) for values in found]
            put_json("demerit.trips/1", since=first.isoformat(), trips=listed)
        elif found:
            pages = at.pages(sys.stdout)
            write(lambda: _put_trips(pages, found))
        else:
            said = "since today" if days == 1 else f"in the last {days} days"
            if at.settings.loop_guard_mode == "off":
                why = "loop_guard_mode is off, and then nothing is read for loops: set it to note or refuse"
            else:
                why = "no request went through demerit proxy, unless its loop_guard_mode was off"
            say(f"nothing {said}: {why}")
    return 0


def _days(text: str) -> int:
    """Days of the trips log to show, from 1 to 90. Raises Misuse for what is no span."""
    from demerit.cli.choosing import days_of

    if re.fullmatch(r"0+[dwy]?", text.strip().lower()):
        return 1
    days = days_of(text)
    if days is None:
        raise Misuse(f"--since {text!r} is no span of days; write it like 30d or 4w")
    if days > _MOST_DAYS:
        say(f"the log reaches back {_MOST_DAYS} days; these are shown")
    return min(days, _MOST_DAYS)


_COLUMNS = {
    "day": "",
    "model": "",
    "version": "",
    "mode": "",
    "scanned": "scanned",
    "loops": "loops",
    "loops_share": "share",
    "loops_share_low": "share",
    "loops_share_high": "share",
    "stagnations": "stagnations",
    "stagnations_share": "share",
    "stagnations_share_low": "share",
    "stagnations_share_high": "share",
    "sessions": "sessions",
}
"""What `trips` shows of each day, model, version and mode: the names of the figures, and their units."""

_FOOTNOTES = (
    "A trip is a decision of the guard and no delivery: behind it a noted request may still have been refused, so "
    "there can be more here than on the dashboard.",
    "Days are UTC's. A share is over the requests that were scanned, with its 95 % interval; compare it within one "
    "mode and one version. Sessions are those with a trip; one that goes on past midnight counts on both days.",
)


def _figures(row: Any) -> list[Any]:
    """A row of the trips log in the order of `_COLUMNS`."""
    from demerit.rates import wilson

    found = [row.day.isoformat(), row.model, row.version, row.mode, row.scanned]
    for hits in (row.loops, row.stagnations):
        # The count of what was scanned can be lost, and its trips not: then there is nothing to have a share of.
        found += [hits, *(wilson(hits, row.scanned) if hits <= row.scanned else (None, None, None))]
    return [*found, row.sessions]


def _put_trips(pages: Pages, found: Sequence[Sequence[Any]]) -> None:
    from demerit.panels.tables import Column, Row, Table
    from demerit.store.filters import Filter

    table = Table(
        panel="trips",
        by="day",
        zone="UTC",
        columns=tuple(Column(name, unit, "") for name, unit in _COLUMNS.items()),
        rows=tuple(Row(tuple(values)) for values in found),
        total=None,
        counted=0,
        sessions=Filter(),
        notes=(),
        more=0,
    )
    pages.figures(table)
    pages.words(["", *_FOOTNOTES])
