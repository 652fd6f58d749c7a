"""A dozen invented sessions, small and in the real shape of each format, for trying demerit without logs of one's own."""

from pathlib import Path

SAMPLES = Path(__file__).parent
"""The folder of the bundled samples."""
