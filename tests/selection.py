"""Cases of long lists: `make test` runs some of them, `make test-all` every one (the marker `thorough`)."""

from collections.abc import Iterable, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from benchrun import kept, paths


def some(values: Iterable[Any], count: int) -> list[Any]:
    """Parameters of a test: `count` of the values, evenly spread, without a mark, the others marked thorough.

    A tuple is the values of several parameters.
    """
    values = list(values)
    count = min(count, len(values))
    kept = {position * len(values) // count for position in range(count)}
    return [_parameter(value, number in kept) for number, value in enumerate(values)]


def pairs(first: Iterable[Any], second: Iterable[Any]) -> list[Any]:
    """Parameters of a test: all pairs, those marked thorough without which each value is still in one."""
    first, second = list(first), list(second)
    count = max(len(first), len(second))
    kept = {(number % len(first), number % len(second)) for number in range(count)}
    places = product(range(len(first)), range(len(second)))
    return [_parameter((first[a], second[b]), (a, b) in kept) for a, b in places]


def representative(runs: Sequence[Path | str]) -> list[Any]:
    """Parameters of a test: of each framework and kind of workload the run with the most files, the others thorough.

    `runs` are folders, or names in results/measured: all of those give 12 runs.
    """
    richest: dict[tuple[str, str], Path | str] = {}
    for run in runs:
        group = _group(run)
        if group not in richest or _files(run) > _files(richest[group]):
            richest[group] = run
    kept = set(richest.values())
    return [_parameter(run, run in kept) for run in runs]


def chosen(request: pytest.FixtureRequest, name: str) -> list[Any]:
    """Values that a parameter has in the cases of the file that will run, in their order."""
    items = [item for item in request.session.items if item.path == request.path]
    parameters = [item.callspec.params for item in items if hasattr(item, "callspec")]
    return list(dict.fromkeys(each[name] for each in parameters if name in each))


def _parameter(value: Any, kept: bool) -> Any:
    if kept:
        return value
    return pytest.param(*(value if isinstance(value, tuple) else (value,)), marks=pytest.mark.thorough)


def _group(run: Path | str) -> tuple[str, str]:
    entry = _entry(run)
    return entry["framework"], entry["workload"]


def _files(run: Path | str) -> int:
    return len(_entry(run)["files"])


def _entry(run: Path | str) -> kept.Entry:
    return kept.entries(paths.MEASURED)[Path(run).name]
