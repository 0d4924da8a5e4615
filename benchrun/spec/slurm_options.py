"""Options of sbatch and srun that a site file cannot set, as benchrun sets them or they break a run."""

from __future__ import annotations

import csv
import functools
import re
from collections.abc import Callable
from pathlib import Path

_OPTION = re.compile(r"--(?P<long>[^=\s]+)|-[HOQkuvlX]*(?P<short>[^-\s])")
"""Short options without a value may stand before another in one word: ``-Ha1-3``."""


@functools.cache
def _refused() -> tuple[dict[str, str], ...]:
    """Long name, letter, programs, and what to use instead."""
    with Path(__file__).with_suffix(".csv").open(newline="") as file:
        return tuple(csv.DictReader(file))


def allowed(program: str) -> Callable[[str], str]:
    """A check that returns an option unchanged, or raises ValueError if ``program`` (sbatch, srun) cannot have it."""

    def check(option: str) -> str:
        match = _OPTION.match(option)
        if match is None:
            raise ValueError(f"{option!r} is no option")
        for row in _refused():
            # getopt accepts an unambiguous prefix of a long name: --arr is --array.
            long = match["long"] is not None and row["option"].startswith(match["long"])
            if program in row["programs"].split() and (long or (row["letter"] and match["short"] == row["letter"])):
                raise ValueError(f"a site file cannot set {program} --{row['option']}: {row['instead']}")
        return option

    return check
