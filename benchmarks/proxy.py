"""The proxy beside others, in front of one fast upstream, in one run. `python -m benchmarks.proxy [--quick]`

The upstream itself; a proxy that only copies bytes, with the same server and HTTP client; `demerit proxy` with its
guard, counters and store; LiteLLM's proxy with one worker; Portkey's gateway. The two last are installed below
`benchmarks/.data` when they are missing. They take turns, and each figure is the median of its rounds: on a machine
that does other things as well, only ratios within a run mean something. The load has a process of its own.

`--clients` compares HTTP client libraries in the byte copy instead (decision 016). Linux only.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple
from urllib.request import urlopen

from benchmarks.data import DATA
from benchmarks.proxy_peers import starting
from benchmarks.proxy_peers.bytecopy import CLIENTS
from benchmarks.proxy_peers.starting import Peer, Unavailable

MEMORY_STEPS = 10


class Trial(NamedTuple):
    """What is asked, and what has to be reached."""

    title: str
    unit: str
    job: dict[str, Any]
    least: dict[str, float]
    """How many times as much as another demerit has to do, by the other's name."""


TRIALS = (
    Trial(
        "Whole answers, 32 clients",
        "request",
        {"kind": "whole", "clients": 32, "model": "bench"},
        {"LiteLLM": 30, "Portkey": 4},
    ),
    Trial(
        "50 streams of 500 events, the upstream writing one event at a time",
        "event",
        {"kind": "streamed", "clients": 50, "model": "bench"},
        {"byte copy": 0.8, "LiteLLM": 50},
    ),
    Trial(
        "50 streams of 500 events, the upstream writing all of a stream at once",
        "event",
        {"kind": "streamed", "clients": 50, "model": "bench-burst"},
        {"byte copy": 0.8, "LiteLLM": 50},
    ),
)
ADDED_MS = 1.0


def load(**job: Any) -> dict[str, Any]:
    """What came of a load. Raises Unavailable when a request of it failed."""
    done = subprocess.run(starting.module("load", json.dumps(job)), capture_output=True, text=True, check=False)
    if done.returncode:
        raise Unavailable(done.stderr.strip().rpartition("\n")[2])
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def compare(trial: Trial, peers: Sequence[Peer], rounds: int, seconds: float) -> None:
    """All of them in turn, and again. One that fails at the trial has no part in it."""
    print(f"\n{trial.title}: {trial.unit}s/s, and microseconds of the process's CPU per {trial.unit}")
    able = []
    for peer in peers:
        try:
            load(**trial.job | {"clients": 4}, url=peer.url, headers=peer.headers, seconds=0.5)
        except Unavailable as reason:
            print(f"  left out: {peer.name}: {reason}")
        else:
            able.append(peer)
    found: dict[str, list[dict[str, float]]] = {peer.name: [] for peer in able}
    for _ in range(rounds):
        for peer in able:
            before = peer.cpu_s
            got = load(**trial.job, url=peer.url, headers=peer.headers, seconds=seconds)
            found[peer.name].append({**got, "cpu_us": (peer.cpu_s - before) / got["count"] * 1e6})
    middle = {
        name: {key: statistics.median(got[key] for got in rounds_of) for key in rounds_of[0]}
        for name, rounds_of in found.items()
    }
    ours = middle.get("demerit")
    for name, of in middle.items():
        line = f"  {name:16}{of['per_s']:>12,.0f}/s   CPU {of['cpu_us']:>7,.1f} us"
        if "p50_ms" in of:
            line += f"   p50 {of['p50_ms']:6.2f} ms, p99 {of['p99_ms']:7.2f} ms"
        if ours is not None and name != "demerit":
            line += f"   demerit: {ours['per_s'] / of['per_s']:.2f} times that"
            if name in trial.least:
                line += f" (at least {trial.least[name]:g})"
        print(line, flush=True)


def latency(peers: Sequence[Peer], seconds: float) -> None:
    """One request at a time, at each in turn."""
    got = load(
        kind="latency",
        urls=[peer.url for peer in peers],
        headers=[peer.headers for peer in peers],
        seconds=seconds,
        model="bench",
    )
    print("\nOne client, whole answers: median latency, and what is added to the upstream's")
    for peer, p50, p99 in zip(peers, got["p50_ms"], got["p99_ms"], strict=True):
        added = p50 - got["p50_ms"][0]
        least = f" (under {ADDED_MS:g})" if peer.name == "demerit" else ""
        more = f"   added {added:.2f} ms{least}" if peer is not peers[0] else ""
        print(f"  {peer.name:16}p50 {p50:6.2f} ms, p99 {p99:6.2f} ms{more}")


def memory(peer: Peer, requests: int) -> None:
    """What the process holds while it serves so many requests, every tenth of them a stream."""
    before, counted = peer.resident_mb, _counted(peer)
    print(f"\nMemory of {peer.name} over {requests:,} requests, in MB: {before:.0f}", end="", flush=True)
    for _ in range(MEMORY_STEPS):
        load(kind="mixed", clients=32, model="bench", url=peer.url, headers={}, count=requests // MEMORY_STEPS)
        print(f", {peer.resident_mb:.1f}", end="", flush=True)
    print(f"\n  requests in its ledger: {_counted(peer) - counted:,} more")


def _counted(peer: Peer) -> int:
    with urlopen(f"{peer.url}/proxy/status", timeout=10) as answer:
        models = json.load(answer)["models"]
    return sum(of["defects"]["requests"] for of in models.values())


def _all_peers(stack: ExitStack, direct: Peer) -> list[Peer]:
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=DATA)))
    others: dict[str, AbstractContextManager[Peer]] = {
        "byte copy": starting.bytecopy(direct.url),
        "demerit": starting.demerit(direct.url, folder),
        "LiteLLM": starting.litellm(direct.url),
        "Portkey": starting.portkey(direct.url),
    }
    peers = [direct]
    for name, other in others.items():
        try:
            peers.append(stack.enter_context(other))
        except Unavailable as reason:
            print(f"left out: {name}: {reason}")
    return peers


def _all_clients(stack: ExitStack, direct: Peer) -> list[Peer]:
    peers = [direct]
    for client in CLIENTS:
        if find_spec(client) is None:
            print(f"left out: {client}: it is not installed")
        else:
            peers.append(stack.enter_context(starting.bytecopy(direct.url, client, client)))
    return peers


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="one short round")
    parser.add_argument("--clients", action="store_true", help="compare HTTP clients in the byte copy")
    asked = parser.parse_args()
    rounds, seconds, requests = (1, 1.5, 20_000) if asked.quick else (3, 4.0, 100_000)
    with ExitStack() as stack:
        direct = stack.enter_context(starting.upstream())
        peers = (_all_clients if asked.clients else _all_peers)(stack, direct)
        for trial in TRIALS:
            compare(trial, peers, rounds, seconds)
        latency(peers, seconds)
        for peer in peers:
            if peer.name == "demerit":
                memory(peer, requests)


if __name__ == "__main__":
    main()
