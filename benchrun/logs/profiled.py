"""The steps that a job profiles after the measured ones: they are no rows of its log."""

import re
from dataclasses import replace

import numpy as np

from benchrun.runspec.profile import PROFILES

from .records import Log

NEEDLE = PROFILES.partition("{")[0].encode()
_LINE = re.compile(re.escape(PROFILES).replace(r"\{\}", r"(\d{1,15})"))


def measured_steps(text: str) -> int | None:
    """The number of measured steps, by the line that a job prints before it profiles
    others; None for another line.
    """
    match = _LINE.search(text)
    if match:
        return int(match[1])
    return None


def without_profiled(log: Log, steps: int) -> Log:
    """``log`` as though its job had planned and made only the first ``steps`` steps,
    the measured ones.
    """
    last = steps - 1 + log.first_number
    rows = log.steps.chosen(np.flatnonzero(log.steps.column("step") <= last))
    reached = None if log.reached is None else min(log.reached, last)
    facts = replace(log.facts, planned_steps=steps)
    return replace(log, steps=rows, facts=facts, reached=reached, profiled_after=steps)
