"""Draft."""

from __future__ import annotations
from typing import Any


class Keeping:
    lost = 0
    pending = 0

    def __init__(self, *a: Any, **k: Any) -> None: ...
    def scanned(self, at: Any, model: str) -> None: ...
    def decision(self, decision: Any) -> None: ...
    def close(self) -> None: ...
