"""Tokens of many requests, each request once though logs repeat it."""

from __future__ import annotations

from collections.abc import Iterable

from demerit.model import Usage
from demerit.quality.report import UsageTotals


class RequestTotals:
    """Adds up usage over sessions, each request once: of several records of one, the one with most output."""

    def __init__(self) -> None:
        self._known: dict[str, Usage] = {}
        self._input = self._read = self._written = self._written_1h = self._output = 0
        self._reasoning = 0
        self._reporting = 0  # requests that tell their reasoning
        self._requests = 0
        self._partial = 0
        self._is_any = False

    def add(self, usages: Iterable[Usage]) -> None:
        """Count all of these."""
        for usage in usages:
            self.add_one(usage)

    def add_one(self, usage: Usage) -> bool:
        """Count one; whether it is a request that was not counted before."""
        if usage.is_empty:
            return False
        known = None
        if usage.key is not None:
            known = self._known.get(usage.key)
            if known is not None:
                if usage.output_tokens <= known.output_tokens:
                    return False
                self._sum(known, -1)
            self._known[usage.key] = usage
        self._sum(usage, 1)
        return known is None

    def _sum(self, usage: Usage, sign: int) -> None:
        self._is_any = True
        self._requests += 0 if usage.is_sum else sign
        self._input += sign * usage.input_tokens
        self._read += sign * usage.cache_read_tokens
        self._written += sign * (usage.cache_write_5m_tokens + usage.cache_write_1h_tokens)
        self._written_1h += sign * usage.cache_write_1h_tokens
        self._output += sign * usage.output_tokens
        self._partial += sign * usage.output_is_partial
        if usage.reasoning_tokens is not None:
            self._reporting += sign
            self._reasoning += sign * usage.reasoning_tokens

    def result(self) -> UsageTotals | None:
        """The sums so far; None when nothing was logged. A sum of several requests adds nothing to `requests`."""
        if not self._is_any:
            return None
        return UsageTotals(
            input_tokens=self._input,
            cache_read_tokens=self._read,
            cache_write_tokens=self._written,
            output_tokens=self._output,
            reasoning_tokens=self._reasoning if self._reporting else None,
            requests=self._requests,
            cache_write_1h_tokens=self._written_1h,
            output_is_partial=self._partial > 0,
        )
