"""What a proxy is told: its upstreams, its guard, its access rules and its limits, as plain checked values."""

from __future__ import annotations

from typing import Literal

import msgspec

from demerit.loops import GuardConfig

GuardMode = Literal["off", "note", "refuse"]


class Upstream(msgspec.Struct, frozen=True, kw_only=True):
    """One model server."""

    name: str
    """As the settings call it; shown in the status and as a label of metrics."""
    url: str
    """Its base, which ends where the paths of the API begin: `http://127.0.0.1:8080/v1`. Never with a password."""
    models: tuple[str, ...] = ("*",)
    """Globs of the model names that go to it, case-sensitive; the first upstream with a match has the request."""
    key: str | None = None
    """Sent as `Authorization: Bearer`; None: the client's own header goes through, unless that is the proxy's key."""
    max_inflight: int | None = None
    """Requests that it is given at a time; the others wait. None: as many as come."""
    embedding_models: tuple[str, ...] = ()
    """Globs of models that cannot chat."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """All that a proxy goes by."""

    upstreams: tuple[Upstream, ...]
    """At least one."""
    guard_mode: GuardMode = "note"
    guard: GuardConfig = GuardConfig()
    key: str | None = None
    """What clients have to show; None: nothing is asked."""
    allowed_hosts: tuple[str, ...] = ()
    """Names, besides those of the loopback and `host`, under which it answers."""
    cors_origins: tuple[str, ...] = ()
    """Origins of web pages that may call it; `*` is all."""
    body_limit_bytes: int = 32 << 20
    connect_s: float = 5
    first_byte_s: float = 300
    idle_s: float = 300
    """Longest silence of an upstream within a stream."""
    keepalive_s: float = 15
    """After so long without a byte a waiting client is sent a comment."""
    queue: int = 64
    """Requests that may wait for one upstream with a limit."""
    queue_wait_s: float = 30
