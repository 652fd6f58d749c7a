"""Invented sessions in the real shape of each format, to try demerit on without logs of one's own."""

from pathlib import Path

SAMPLES: Path = Path(__file__).parent
"""The folder of the bundled samples."""
