"""What a proxy counted and its guard decided goes into the store: by a thread of its own, which no request waits for.

    keeping = Keeping(database_url, ledger, version, mode, warn=log.warning)
    keeping.scanned(at, model)        # of each request that the guard read, and at that same time
    keeping.decision(decision)        # where it decided to act
    keeping.close()

A database that cannot be written to costs no request anything. What was counted waits in memory until it can be
written; of the decisions, 1,024 wait, and those that come then are counted as lost.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec

from demerit.defects import OTHER, DefectLedger
from demerit.proxy.exchange import Decision
from demerit.proxy.options import GuardMode
from demerit.store import Store, StoreError
from demerit.store.filters import HOUR_US, microseconds
from demerit.store.guarded import ScanKey, Trip, add_decisions, add_model_counts, day_of, forget_old_trips

_MOST_WAITING = 1024
_BATCH = 256
_FLUSH_S = 5.0
_COUNTS_S = 60.0
_CLOSE_S = 5.0
_WARN_EVERY_S = 60.0
# As in the ledger: clients that invent names must not fill the store.
_MODEL_CHARS = 256
_MOST_MODELS = 1000


class Batch(NamedTuple):
    """What is written at once, in one transaction."""

    trips: list[Trip]
    scans: dict[ScanKey, int]
    counts: dict[int, dict[str, dict[str, int]]]
    """By hour, model and counter."""

    @property
    def is_empty(self) -> bool:
        return not (self.trips or self.scans or self.counts)


class Waiting:
    """What is yet to be written. Decisions and scans come from any thread; the rest is the writing thread's alone."""

    def __init__(self, ledger: DefectLedger, version: str, mode: GuardMode) -> None:
        self.lost = 0
        """Decisions that found no room."""
        self._ledger = ledger
        self._version = version
        self._mode = mode
        self._lock = threading.Lock()
        self._models: set[str] = set()
        self._trips: list[Trip] = []
        self._scans: dict[ScanKey, int] = {}
        self._counts: dict[int, dict[str, dict[str, int]]] = {}
        self._counted: dict[str, dict[str, int]] = {}  # what of the ledger is in `_counts`, or was and is written

    @property
    def pending(self) -> int:
        """Decisions that wait."""
        return len(self._trips)

    def scanned(self, at: datetime, model: str) -> None:
        """The guard read a request that came then."""
        if self._mode == "off":
            return
        day = day_of(microseconds(at))
        with self._lock:
            key = ScanKey(day, self._known(model), self._version, self._mode)
            self._scans[key] = self._scans.get(key, 0) + 1

    def decision(self, decision: Decision) -> None:
        """The guard decided to act."""
        with self._lock:
            if decision.limit is None or len(self._trips) >= _MOST_WAITING:
                self.lost += 1
                return
            trip = Trip(
                microseconds(decision.at),
                self._known(decision.model),
                self._version,
                decision.mode,
                decision.detector.value,
                decision.signature_hash,
                decision.session_hash,
                decision.count,
                decision.limit,
            )
            self._trips.append(trip)

    def _known(self, model: str) -> str:
        model = model[:_MODEL_CHARS]
        if model not in self._models:
            if len(self._models) >= _MOST_MODELS:
                return OTHER
            self._models.add(model)
        return model

    def count(self, hour: int) -> None:
        """Take what the ledger counted since the last time as counted in this hour."""
        for model, counts in self._ledger.models().items():
            was = self._counted.get(model, {})
            now = {**msgspec.structs.asdict(counts.defects), **msgspec.structs.asdict(counts.turns)}
            differences = {name: value - was.get(name, 0) for name, value in now.items() if value > was.get(name, 0)}
            if differences:
                into = self._counts.setdefault(hour, {}).setdefault(model, {})
                for name, value in differences.items():
                    into[name] = into.get(name, 0) + value
                self._counted[model] = now

    def batch(self) -> Batch:
        """The next to be written. It goes on waiting until `written` is told."""
        with self._lock:
            return Batch(self._trips[:_BATCH], dict(self._scans), self._counts)

    def written(self, batch: Batch) -> None:
        """It is in the database, and waits no longer."""
        with self._lock:
            del self._trips[: len(batch.trips)]
            for key, count in batch.scans.items():
                self._scans[key] -= count
                if not self._scans[key]:
                    del self._scans[key]
        self._counts = {}

    def give_up(self) -> None:
        """Nothing more will be written."""
        with self._lock:
            self.lost += len(self._trips)
            self._trips.clear()


def _utc_now() -> datetime:
    return datetime.now(UTC)


class Keeping:
    """Writes to the store what waits: decisions and scans every few seconds, the ledger's differences every minute.

    Two that write to one database add up. A connection that breaks in the very moment of a commit counts as one that
    kept nothing: what it may have kept all the same is then written a second time, which is rarer than a loss.
    """

    def __init__(
        self,
        database_url: str,
        ledger: DefectLedger,
        version: str,
        mode: GuardMode,
        warn: Callable[[str], None],
        *,
        now: Callable[[], datetime] = _utc_now,
        flush_s: float = _FLUSH_S,
        counts_s: float = _COUNTS_S,
    ) -> None:
        """Begins to write. Opens nothing yet: a database that is not there is warned of, and asked again.

        warn: told, once a minute at most and from another thread, what cannot be kept.
        """
        self._database_url = database_url
        self._version = version
        self._waiting = Waiting(ledger, version, mode)
        self._warn = warn
        self._now = now
        self._flush_s = flush_s
        self._counts_us = round(counts_s * 1_000_000)
        self._store: Store | None = None
        self._has_failed = False
        self._cleared_hour: int | None = None
        self._warned_s: float | None = None
        self._lost_told = 0
        self._wake = threading.Event()
        self._is_closing = False
        # A daemon: a database that hangs must not keep the program from ending.
        self._thread = threading.Thread(target=self._run, name="demerit-keeping", daemon=True)
        self._thread.start()

    @property
    def lost(self) -> int:
        """Decisions that the trips log will never have."""
        return self._waiting.lost

    @property
    def pending(self) -> int:
        """Decisions that are not in the trips log yet."""
        return self._waiting.pending

    def scanned(self, at: datetime, model: str) -> None:
        """The guard read a request that came at this time, which a decision about it must give as well."""
        self._waiting.scanned(at, model)

    def decision(self, decision: Decision) -> None:
        """The guard decided to act."""
        self._waiting.decision(decision)
        if self._waiting.pending >= _BATCH and not self._has_failed:
            self._wake.set()

    def close(self, wait_s: float = _CLOSE_S) -> None:
        """Write what waits, and end. Takes `wait_s` at most; what is not written by then is lost, and warned of."""
        self._is_closing = True
        self._wake.set()
        self._thread.join(wait_s)
        if self._thread.is_alive() or self._has_failed:
            self._waiting.give_up()
            self._warn(f"the proxy's last counts were not kept; decisions that its guard's log lacks: {self.lost}")

    # --- the thread -------------------------------------------------------------------------------------------

    def _run(self) -> None:
        since_us = microseconds(self._now())
        is_last = False
        while not is_last:
            self._wake.wait(self._flush_s)
            self._wake.clear()
            is_last = self._is_closing
            now = self._now()
            try:
                if is_last or microseconds(now) // self._counts_us != since_us // self._counts_us:
                    # What a minute counted belongs to the hour in which the minute began.
                    self._waiting.count(since_us // HOUR_US)
                    since_us = microseconds(now)
                self._write(now)
                self._has_failed = False
            except Exception as error:
                self._has_failed = True
                self._close_store()
                reason = str(error) if isinstance(error, StoreError) else f"{type(error).__name__}: {error}"
                self._say(f"what the proxy counted cannot be kept now, and will be tried again: {reason}")
            if self.lost > self._lost_told and not self._is_closing:
                self._say(f"too many decisions of the loop guard wait; those that its log lacks: {self.lost}")
        self._close_store()

    def _write(self, now: datetime) -> None:
        """Write all that waits. Raises whatever the database complains of: what was not written goes on waiting."""
        hour = microseconds(now) // HOUR_US
        while not (batch := self._waiting.batch()).is_empty:
            if self._store is None:
                self._store = Store.open(self._database_url)
            with self._store.writing() as connection:
                add_decisions(connection, batch.trips, batch.scans)
                for of_hour, differences in batch.counts.items():
                    add_model_counts(connection, of_hour, self._version, differences)
                if hour != self._cleared_hour:
                    forget_old_trips(connection, now)
            self._waiting.written(batch)
            self._cleared_hour = hour

    def _say(self, message: str) -> None:
        at_s = time.monotonic()
        if self._warned_s is None or at_s - self._warned_s >= _WARN_EVERY_S:
            self._warned_s = at_s
            self._lost_told = self.lost
            self._warn(message)

    def _close_store(self) -> None:
        if self._store is not None:
            self._store.close()
            self._store = None
