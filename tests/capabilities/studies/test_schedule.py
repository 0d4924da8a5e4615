"""What is launched next: never too much, never twice, never for ever."""

import random
from collections import defaultdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchrun.capabilities.studies.schedule import Attempt, PointState, due, state_of
from benchrun.capabilities.studies.state import Slot
from benchrun.jobs.endings import AGAIN, Ending

GOING, COMPLETED = Attempt(PointState.GOING), Attempt(PointState.COMPLETED, Ending.COMPLETED)
FAILED, LOST = Attempt(PointState.FAILED, Ending.FAILED), Attempt(PointState.WAITING)
CANCELLED = Attempt(PointState.FAILED, Ending.CANCELLED)


@pytest.mark.parametrize(
    ("attempts", "retries", "state"),
    [
        ([], 0, PointState.WAITING),
        ([GOING], 0, PointState.GOING),
        ([COMPLETED], 0, PointState.COMPLETED),
        ([FAILED], 0, PointState.FAILED),
        ([FAILED], 1, PointState.WAITING),
        ([FAILED, FAILED], 1, PointState.FAILED),
        ([FAILED, GOING], 1, PointState.GOING),
        ([FAILED, COMPLETED], 1, PointState.COMPLETED),
        ([LOST], 0, PointState.WAITING),  # no job was ever accepted
        ([LOST, FAILED], 1, PointState.WAITING),
        ([CANCELLED], 5, PointState.FAILED),  # a user wanted it
        ([FAILED, CANCELLED], 5, PointState.FAILED),
    ],
)
def test_the_state_of_a_slot(attempts: list[Attempt], retries: int, state: PointState) -> None:
    assert state_of(attempts, retries) is state


def test_first_repeats_come_first() -> None:
    slots = [("a", 1), ("a", 2), ("b", 1), ("b", 2)]
    assert list(due(slots, {}, 3, 0)) == [("a", 1), ("b", 1), ("a", 2)]
    assert list(due(slots, {("a", 1): [GOING], ("b", 1): [COMPLETED]}, 2, 0)) == [("a", 2)]
    assert list(due(slots, {("a", 1): [GOING]}, 1, 0)) == []


@settings(max_examples=200, deadline=None)
@given(
    points=st.integers(1, 5),
    repeats=st.integers(1, 3),
    concurrency=st.integers(1, 6),
    retries=st.integers(0, 3),
    seed=st.integers(0, 10**6),
)
def test_any_course_of_events_ends(points: int, repeats: int, concurrency: int, retries: int, seed: int) -> None:
    chance = random.Random(seed)
    slots: list[Slot] = [(f"p{point}", repeat + 1) for point in range(points) for repeat in range(repeats)]
    attempts: dict[Slot, list[Attempt]] = defaultdict(list)
    endings = [COMPLETED, FAILED, CANCELLED, Attempt(PointState.FAILED, Ending.NODE_FAILURE)]
    for _ in range(1000):
        new = list(due(slots, attempts, concurrency, retries))
        for slot in new:
            assert GOING not in attempts[slot] and COMPLETED not in attempts[slot]
            attempts[slot].append(GOING)
        running = [slot for slot in slots if GOING in attempts[slot]]
        assert len(running) <= concurrency
        if not running:
            break
        slot = chance.choice(running)
        attempts[slot][-1] = chance.choice(endings)
    else:
        pytest.fail("it goes on for ever")
    for slot in slots:
        assert len(attempts[slot]) <= 1 + retries
        final = {AGAIN[attempt.ending] for attempt in attempts[slot] if attempt.ending} & {"done", "never"}
        assert len(attempts[slot]) == 1 + retries or final
