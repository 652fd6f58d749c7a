"""The command line: one module for each family of commands, over the program in `app`."""

from __future__ import annotations

from demerit.cli import grading, history, proxy, upkeep
from demerit.cli.app import app, main

__all__ = ["app", "grading", "history", "main", "proxy", "upkeep"]
