"""A proxy over real sockets, in a thread of this process, for as long as a test needs it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from demerit.proxy.app import Proxy, Server, listen
from demerit.proxy.options import Options, Upstream


def options_for(url: str, **changed: Any) -> Options:
    """Options with one upstream, named "up". url: with `/v1` at its end."""
    return Options(upstreams=(Upstream(name="up", url=url),), **changed)


@contextmanager
def running(options: Options, **named: Any) -> Iterator[tuple[str, Proxy]]:
    """The base URL of a proxy that is up, with `/v1` at its end, and the proxy. named: as `Proxy` takes it."""
    listening = listen("127.0.0.1", 0)
    proxy = Proxy(options, **{"reads_models": False, **named})
    up = threading.Event()
    server = Server(proxy, up.set)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, name="proxy")
    thread.start()
    try:
        assert up.wait(20), "the proxy did not start"
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/v1", proxy
    finally:
        server.should_exit = True
        thread.join(20)
        listening.close()
        assert not thread.is_alive(), "the proxy did not stop"
