"""The words of step lines, facts and problems, as one search through the bytes of a log."""

import functools
from collections.abc import Sequence

from . import configuration, launched, problems, profiled, stamps, tracebacks
from .dialect import Dialect
from .lines import Grams
from .skipped import NEEDLE as COUNT_OF_SKIPPED

PROBLEM, PROFILE, LAUNCH, CONFIGURATION, PAUSE = -1, -2, -3, -4, -5
"""Owners of the words that mean a problem, of those that announce profiled steps, of a
job's own statement, of what any program states, and of those that tell of a pause.
"""


@functools.cache
def search_for(
    classes: tuple[type[Dialect], ...], steps: tuple[int, ...], facts: tuple[int, ...]
) -> Grams:
    """The search for step lines and facts of these dialects, and for problems. Owner: 2
    x dialect, + 1 for a fact.
    """
    unknown = len(facts) == len(classes)
    words: dict[int, Sequence[bytes]] = {
        PROBLEM: [
            *problems.NEEDLES,
            tracebacks.HEADER.encode(),
            tracebacks.FRAME.encode(),
            COUNT_OF_SKIPPED,
            *(problems.LOSSES if unknown else ()),
        ],
        PROFILE: [profiled.NEEDLE],
        LAUNCH: [launched.NEEDLE],
        PAUSE: stamps.PAUSES,
    }
    if unknown:
        words[CONFIGURATION] = configuration.NEEDLES
    for number in steps:
        words[2 * number] = classes[number].step_needles
    for number in facts:
        words[2 * number + 1] = classes[number].fact_needles
    wanted = []
    for owner, needles in words.items():
        wanted += [(needle, owner) for needle in needles]
    return Grams(wanted)
