"""Report cards for AI agents: grades every agent session A-F and says why.

    import demerit
    for report in demerit.grade("session.jsonl"):
        print(report.grade, report.score, report.outcome)

Names are handed out on first use, so that `import demerit` is quick and has no side effect.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from demerit import quality
    from demerit.library import grade, parse
    from demerit.quality import Report
    from demerit.sources import Unreadable

__all__ = ["Report", "Unreadable", "__version__", "grade", "parse", "quality"]
__version__ = "0.1.0"

_HOMES = {
    "Report": "demerit.quality.report",
    "Unreadable": "demerit.sources",
    "grade": "demerit.library",
    "parse": "demerit.library",
}


def __getattr__(name: str) -> Any:
    if name == "quality":
        return import_module("demerit.quality")
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'demerit' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
