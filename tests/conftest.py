"""What all tests share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

# Seconds say nothing on a busy machine. In CI the same cases are tried each time, so that a red run can be
# repeated; on one's own machine new ones are looked for.
settings.register_profile("local", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")

CORPUS = Path(__file__).parents[2] / "shared" / "corpus" / "transcripts"


@pytest.fixture(scope="session")
def corpus() -> Path:
    """A folder of real transcripts, one folder an agent, for whoever keeps one beside the repository."""
    if not CORPUS.is_dir():
        pytest.skip("no corpus of real transcripts beside the repository")
    return CORPUS
