"""Who may ask, where a request goes, and which headers travel with it."""

from __future__ import annotations

import hmac
import ipaddress
import re
from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import NamedTuple, TypeAlias
from urllib.parse import urlsplit

from demerit.proxy.chat import error_body
from demerit.proxy.options import Options, Upstream

Headers: TypeAlias = list[tuple[bytes, bytes]]
"""In their order, names in lower case."""

_OWN_KEY = b"x-demerit-upstream-authorization"
_OWN = b"x-demerit-"
# Of one connection, not of the message that goes over it (RFC 9110, section 7.6.1).
_HOP = frozenset(
    b"connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer transfer-encoding"
    b" upgrade http2-settings".split()
)
_OPEN_PATHS = ("/health",)
_JSON: Headers = [(b"content-type", b"application/json")]


HEAD_LIMIT_BYTES = 64 << 10
"""Longest head of a request: its line and its headers."""


class Reply(NamedTuple):
    """An answer of the proxy's own."""

    status: int
    headers: Headers
    body: bytes


def reply_error(status: int, message: str, code: str, type: str | None = None, headers: Headers | None = None) -> Reply:
    """An error in the wire format. type: as `code` unless given."""
    return Reply(status, _JSON + (headers or []), error_body(message, type or code, code))


class Gate:
    """The access rules of one proxy."""

    def __init__(self, options: Options, host: str = "127.0.0.1") -> None:
        """host: the address it listens at; a wildcard adds no name to those that it answers to."""
        self._hosts = {_bare(name) for name in (*options.allowed_hosts, host)} - {"0.0.0.0", "::", ""}
        self._key = options.key.encode() if options.key is not None else None
        self._origins = frozenset(origin.rstrip("/") for origin in options.cors_origins)

    def refusal(self, method: str, path: str, headers: Headers) -> Reply | None:
        """Why a request is not let in; None when it is.

        The host comes first: a page of another site that got its name pointed at this machine is stopped by it.
        """
        size, named = 0, []
        for name, value in headers:
            size += len(name) + len(value)
            if name == b"host":
                named.append(value)
        if size > HEAD_LIMIT_BYTES:
            return reply_error(431, "the headers are over 64 KiB; send fewer", "headers_too_large")
        host = named[0].decode("latin-1") if len(named) == 1 else ""
        if not self._knows(host):
            told = f"the host {host[:100]!r} is not one of this proxy's" if host else "the request names no one host"
            what_to_do = "add it to allowed_hosts in the settings of demerit, or to DEMERIT_ALLOWED_HOSTS"
            return reply_error(403, f"{told}; {what_to_do}", "host_not_allowed")
        if method in ("TRACE", "CONNECT") or not path.startswith("/"):
            return reply_error(405, f"this proxy does not take {method} {path[:100]}", "method_not_allowed")
        if path in _OPEN_PATHS or self._key is None or self._is_preflight(method, headers):
            return None
        if any(self._opens(name, value) for name, value in headers):
            return None
        return reply_error(
            401,
            "this proxy wants its key as 'Authorization: Bearer KEY' or as 'x-api-key: KEY'",
            "invalid_api_key",
            headers=[(b"www-authenticate", b"Bearer")],
        )

    def _knows(self, host: str) -> bool:
        name = _bare(host)
        return name in self._hosts or name == "localhost" or name.endswith(".localhost") or _is_loopback(name)

    def _opens(self, name: bytes, value: bytes) -> bool:
        if name == b"authorization":
            scheme, _, value = value.partition(b" ")
            if scheme.lower() != b"bearer":
                return False
        elif name != b"x-api-key":
            return False
        return hmac.compare_digest(value.strip(), self._key or b"")

    # --- pages of other sites ---------------------------------------------------------------------------------

    def _is_preflight(self, method: str, headers: Headers) -> bool:
        return method == "OPTIONS" and self._origin(headers) is not None

    def _origin(self, headers: Headers) -> bytes | None:
        origin = next((value for name, value in headers if name == b"origin"), None)
        if origin is None or not ("*" in self._origins or origin.decode("latin-1") in self._origins):
            return None
        return origin

    def preflight(self, method: str, headers: Headers) -> Reply | None:
        """The answer to a browser that asks before it calls, where its page may call; None where it did not ask."""
        if not self._is_preflight(method, headers):
            return None
        wanted = next((value for name, value in headers if name == b"access-control-request-headers"), b"*")
        allowed = [
            (b"access-control-allow-methods", b"GET, POST, PUT, PATCH, DELETE, OPTIONS"),
            (b"access-control-allow-headers", wanted),
            (b"access-control-max-age", b"600"),
        ]
        return Reply(204, self.cors(headers) + allowed, b"")

    def cors(self, headers: Headers) -> Headers:
        """What lets a page of a configured origin read the answer; nothing otherwise."""
        if not self._origins:
            return []
        origin = self._origin(headers)
        if origin is None:
            return []
        return [(b"access-control-allow-origin", origin), (b"vary", b"origin")]

    # --- onwards ----------------------------------------------------------------------------------------------

    def onwards(self, headers: Headers, upstream: Upstream, is_read: bool) -> Headers:
        """The headers of a request as the upstream gets them: never the proxy's key, and nothing of the connection.

        is_read: the answer is going to be read, so it has to come as plain text.
        """
        dropped = _of_connection(headers).union((b"host", b"content-length", b"expect"))
        if is_read:
            dropped = dropped.union((b"accept-encoding",))
        if self._key is not None or upstream.key is not None:
            dropped = dropped.union((b"authorization", b"x-api-key"))
        key = b"Bearer " + upstream.key.encode() if upstream.key is not None else None
        kept: Headers = []
        for name, value in headers:
            if name == _OWN_KEY:
                key = key or value
            # The last: a client that shows the proxy's key in some place of its own.
            elif not (name in dropped or name.startswith(_OWN) or (self._key is not None and self._key in value)):
                kept.append((name, value))
        if key is not None:
            kept = [pair for pair in kept if pair[0] != b"authorization"]
            kept.append((b"authorization", key))
        if is_read:
            kept.append((b"accept-encoding", b"identity"))
        return kept


_CONTROL = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
"""No server sends it in a value; what of it an upstream sent is left out, with its header."""


def backwards(headers: Iterable[tuple[bytes, bytes]], drops_length: bool = False) -> Headers:
    """The headers of an answer as the client gets them."""
    lowered = [(name.lower(), value) for name, value in headers]
    dropped = _of_connection(lowered)
    return [
        (name, value)
        for name, value in lowered
        if name not in dropped and not (drops_length and name == b"content-length") and not _CONTROL.search(value)
    ]


def _of_connection(headers: Headers) -> frozenset[bytes]:
    named = [value for name, value in headers if name == b"connection"]
    if not named:
        return _HOP
    return _HOP.union(part.strip().lower() for value in named for part in value.split(b","))


def _bare(host: str) -> str:
    """A host without its port, in lower case."""
    host = host.strip().lower()
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host if host.count(":") > 1 else host.partition(":")[0].rstrip(".")


def _is_loopback(name: str) -> bool:
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return address.is_loopback or bool(mapped and mapped.is_loopback)


# --- where to ---------------------------------------------------------------------------------------------------


def upstream_for(model: str, upstreams: tuple[Upstream, ...]) -> Upstream | None:
    """The upstream that has a model: the only one, or the first with a glob that matches; None where none has."""
    if len(upstreams) == 1:
        return upstreams[0]
    return next((upstream for upstream in upstreams if matches(model, upstream.models)), None)


def matches(model: str, globs: Iterable[str]) -> bool:
    return any(fnmatchcase(model, glob) for glob in globs)


_OF_THE_API = ("/chat/completions", "/completions", "/embeddings", "/models", "/responses", "/messages")
_VERSION_END = re.compile(r"/v1/?$")


def url_for(upstream: Upstream, raw_path: str, query: str) -> str:
    """Where a path of ours lies at an upstream.

    `/v1` stands for the base of the upstream, whether that ends in `/v1` or not, and may be forgotten before the paths
    of the API. What else lies beside `/v1` here lies beside it there.
    """
    base = upstream.url.rstrip("/")
    if raw_path == "/v1" or raw_path.startswith("/v1/"):
        url = base + raw_path[3:]
    elif raw_path.startswith(_OF_THE_API):
        url = base + raw_path
    else:
        url = _VERSION_END.sub("", base) + raw_path
    return f"{url}?{query}" if query else url


def shown_url(url: str) -> str:
    """A URL without a user, a password, a query or a fragment, for people to see."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{parts.path}"
