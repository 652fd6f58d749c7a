"""Starts what `benchmarks.proxy` measures, each in a process of its own, and installs what is missing of others'."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from typing import NamedTuple

from benchmarks.data import DATA, ROOT

MODELS = ("bench", "bench-burst")
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_START_S = 90


class Unavailable(Exception):
    """It cannot be had here; the message says why."""


class Peer(NamedTuple):
    """One endpoint to ask."""

    name: str
    url: str
    """Ends with `/v1`."""
    process: subprocess.Popen[bytes]
    headers: dict[str, str]

    @property
    def cpu_s(self) -> float:
        """Seconds of processor time that its process has used."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS

    @property
    def resident_mb(self) -> float:
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * _PAGE_BYTES / 1e6


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


@contextmanager
def started(
    name: str, command: Sequence[str], port: int, env: Mapping[str, str] = {}, headers: Mapping[str, str] = {}
) -> Iterator[Peer]:
    """A process that listens at the port; its output goes to a file named after it. Raises Unavailable if it does
    not come up."""
    DATA.mkdir(exist_ok=True)
    output = DATA / f"{name.replace(' ', '-')}.log"
    environ = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}", **env}
    with output.open("wb") as file:
        process = subprocess.Popen(command, env=environ, stdin=subprocess.DEVNULL, stdout=file, stderr=file)
    try:
        deadline = time.monotonic() + _START_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                if process.poll() is not None or time.monotonic() > deadline:
                    raise Unavailable(f"it did not start; see {output}") from None
                time.sleep(0.1)
        yield Peer(name, f"http://127.0.0.1:{port}/v1", process, dict(headers))
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def module(name: str, *arguments: str) -> list[str]:
    return [sys.executable, "-m", f"benchmarks.proxy_peers.{name}", *arguments]


@contextmanager
def upstream() -> Iterator[Peer]:
    port = free_port()
    with started("upstream direct", module("upstream", str(port)), port) as peer:
        yield peer


@contextmanager
def bytecopy(url: str, client: str = "aiohttp", name: str = "byte copy") -> Iterator[Peer]:
    port = free_port()
    with started(name, module("bytecopy", str(port), url, client), port) as peer:
        yield peer


@contextmanager
def demerit(url: str, folder: Path) -> Iterator[Peer]:
    """`demerit proxy` as a user starts it: guard, status and store on. folder: for the store."""
    port = free_port()
    env = {"DEMERIT_DATABASE_URL": str(folder / "demerit.db"), "DEMERIT_CONFIG": str(folder / "config.toml")}
    (folder / "config.toml").touch()
    command = [sys.executable, "-m", "demerit", "proxy", "--upstream", url, "--port", str(port)]
    with started("demerit", command, port, env) as peer:
        yield peer


@contextmanager
def litellm(url: str) -> Iterator[Peer]:
    """LiteLLM's proxy with one worker, without its logs, retries and telemetry."""
    folder = DATA / "litellm"
    program = folder / "bin" / "litellm"
    if not program.exists():
        _install(
            [sys.executable, "-m", "venv", str(folder)],
            [str(folder / "bin" / "pip"), "install", "--quiet", "litellm[proxy]"],
        )
    config = folder / "config.yaml"
    models = "".join(
        f"  - model_name: {name}\n    litellm_params: {{model: openai/{name}, api_base: '{url}', api_key: none}}\n"
        for name in MODELS
    )
    config.write_text(
        f"model_list:\n{models}router_settings: {{num_retries: 0}}\nlitellm_settings: {{num_retries: 0}}\n"
    )
    port = free_port()
    command = [str(program), "--config", str(config), "--host", "127.0.0.1", "--port", str(port), "--num_workers", "1"]
    key = f"sk-{token_hex(32)}"  # it does not start without one
    env = {
        "LITELLM_MASTER_KEY": key,
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "LITELLM_LOG": "ERROR",
        "LITELLM_MODE": "PRODUCTION",
        "LITELLM_TELEMETRY": "False",
        "NO_DOCS": "True",
        "PYTHONPATH": "",
    }
    with started("LiteLLM", command, port, env, {"Authorization": f"Bearer {key}"}) as peer:
        yield peer


@contextmanager
def portkey(url: str) -> Iterator[Peer]:
    """Portkey's gateway, without its console."""
    folder = DATA / "portkey"
    script = folder / "node_modules" / "@portkey-ai" / "gateway" / "build" / "start-server.js"
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        raise Unavailable("it needs node and npm")
    if not script.exists():
        folder.mkdir(parents=True, exist_ok=True)
        # With a later server below it than this its streams fail (its issue 1389, open since October 2025).
        wanted = {"dependencies": {"@portkey-ai/gateway": "^1.15.2"}, "overrides": {"@hono/node-server": "1.14.1"}}
        (folder / "package.json").write_text(json.dumps(wanted))
        _install([npm, "install", "--no-audit", "--no-fund", "--legacy-peer-deps", "--prefix", str(folder)])
    port = free_port()
    headers = {
        "x-portkey-provider": "openai",
        "x-portkey-custom-host": url,
        "Authorization": "Bearer none",
    }
    env = {"NODE_ENV": "production", "TRUSTED_CUSTOM_HOSTS": "127.0.0.1,localhost"}
    with started("Portkey", [node, str(script), f"--port={port}", "--headless"], port, env, headers) as peer:
        yield peer


def _install(*commands: Sequence[str]) -> None:
    for command in commands:
        try:
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=900)
        except (OSError, subprocess.SubprocessError):
            raise Unavailable(f"it could not be installed ({' '.join(command)})") from None
