"""Choice of the runs that a study launches next: a pure function of what has happened
so far.
"""

import enum
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from benchrun.jobs.endings import AGAIN, Ending

from .state import Slot


class PointState(str, enum.Enum):
    """State of one run of a point, or of the point."""

    REFUSED = "refused"
    """The point breaks a rule: it is never launched."""
    WAITING = "waiting"
    """The run has to be launched."""
    GOING = "going"
    """The run is in the queue, running, or just launched."""
    COMPLETED = "completed"
    FAILED = "failed"
    """The job ended without all its steps; it is not launched again."""


@dataclass(frozen=True)
class Attempt:
    """One launch of a slot."""

    state: PointState
    """GOING, COMPLETED or FAILED; WAITING if no job of it was ever accepted."""
    ending: Ending | None = None


def state_of(attempts: Sequence[Attempt], retries: int) -> PointState:
    """The state of a slot. Launches that no scheduler accepted do not count."""
    counted = []
    for attempt in attempts:
        if attempt.state is not PointState.WAITING:
            counted.append(attempt)
    for wanted in (PointState.COMPLETED, PointState.GOING):
        if any(attempt.state is wanted for attempt in counted):
            return wanted
    final = any(attempt.ending and AGAIN[attempt.ending] == "never" for attempt in counted)
    if final or len(counted) > retries:
        return PointState.FAILED
    return PointState.WAITING


def due(
    slots: Sequence[Slot],
    attempts: Mapping[Slot, Sequence[Attempt]],
    concurrency: int,
    retries: int,
) -> Iterator[Slot]:
    """The slots to launch now, in order: first repeats first, at most ``concurrency``
    runs at a time.
    """
    states = {slot: state_of(attempts.get(slot, ()), retries) for slot in slots}
    room = concurrency - sum(state is PointState.GOING for state in states.values())
    waiting = sorted(
        (slot for slot in slots if states[slot] is PointState.WAITING), key=lambda slot: slot[1]
    )
    yield from waiting[: max(room, 0)]
