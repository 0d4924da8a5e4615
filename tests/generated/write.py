"""Truth -> the bytes of its log."""

from dataclasses import replace

from .endings import CRASHES, crash_lines
from .forms import ALL
from .forms.base import Line
from .truth import Truth
from .wrap import wrapped


def _riffled(first: list[Line], second: list[Line]) -> list[Line]:
    """Lines of two jobs as they would reach one file: two of the first, one of the second."""
    found: list[Line] = []
    rest = iter(second)
    for index, line in enumerate(first):
        found.append(line)
        if index % 2:
            found += [each for each in [next(rest, None)] if each]
    return found + list(rest)


def lines(truth: Truth) -> list[Line]:
    """The lines of the job, or of both jobs."""
    form = ALL[truth.form]
    found = form.write(truth)
    if truth.second_job:
        other = replace(truth, step_s=truth.step_s * 2, seed=truth.seed + 77, second_job=False)
        found = _riffled(found, form.write(other))
    if truth.trained_before:
        before = replace(truth, step_s=truth.step_s * 2, seed=truth.seed + 77, ending="complete")
        found = form.write(before) + found
    if truth.ending in CRASHES:
        found += crash_lines(truth.ending, truth.crash, truth.seed, truth.gpus)
    return found


def log(truth: Truth) -> bytes:
    """The file."""
    data = wrapped(lines(truth), truth.wrapper, truth.gpus, truth.seed)
    if truth.newest_first:
        data = b"".join(reversed(data.splitlines(keepends=True)))
    if truth.ending == "truncated":
        data = data[: -3 - truth.seed % 60]
    return data
