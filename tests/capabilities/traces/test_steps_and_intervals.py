"""Steps that no range marks: a collective that recurs once a step separates them, one that recurs by layer does not."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made import fingerprint, kernel

from benchrun.capabilities.traces.intervals import NONE, Intervals, union_of
from benchrun.errors import UserError

STEPS, LAYERS = 4, 6
SEND = "ncclDevKernel_SendRecv"


def _layers(step: int) -> list[dict[str, Any]]:
    starts = [1000 * step + 100 * layer for layer in range(LAYERS)]
    return [event for start in starts for event in (kernel(start, 60), kernel(start + 60, 30, SEND))]


def test_a_collective_that_recurs_once_a_step_separates_steps(tmp_path: Path) -> None:
    last = [kernel(1000 * step + 700, 100, "ncclDevKernel_AllReduce") for step in range(STEPS)]
    result = fingerprint(tmp_path, [event for step in range(STEPS) for event in _layers(step)] + last, window="steps")
    assert (result.steps, result.window_s) == (3, pytest.approx(3e-3))
    assert any("no range marks a step" in note and "all_reduce" in note for note in result.notes)


def test_a_collective_of_each_layer_separates_no_steps(tmp_path: Path) -> None:
    """Every third layer has a kernel of its own, as layers of attention across sequences have."""
    layers = [event for layer in range(12) for event in (kernel(100 * layer, 60), kernel(100 * layer + 60, 30, SEND))]
    others = [kernel(100 * layer + 90, 10, "layer_norm") for layer in range(0, 12, 3)]
    with pytest.raises(UserError, match="no collective recurs once a step"):
        fingerprint(tmp_path, layers + others, window="steps")


# Union arithmetic against sets of whole nanoseconds.

Pairs = list[tuple[int, int]]
"""Start and length of each interval."""
PAIRS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 12)), max_size=12)


def intervals(pairs: Pairs) -> Intervals:
    start = np.array([start for start, _ in pairs], np.int64)
    return Intervals(start, start + np.array([length for _, length in pairs], np.int64))


def points(pairs: Pairs) -> set[int]:
    return {point for start, length in pairs for point in range(start, start + length)}


@given(PAIRS)
def test_the_length_of_a_union_is_the_number_of_its_points(pairs: Pairs) -> None:
    assert intervals(pairs).length() == len(points(pairs))


@given(PAIRS)
def test_merged_intervals_are_apart_in_order_and_cover_the_same(pairs: Pairs) -> None:
    merged = intervals(pairs).merged()
    assert (merged.start[1:] > merged.end[:-1]).all()
    covered = {point for start, end in zip(*merged, strict=True) for point in range(start, end)}
    assert covered == points(pairs)


@given(PAIRS, PAIRS)
def test_a_union_has_the_points_of_both_and_what_exceeds_one_is_outside_it(one: Pairs, other: Pairs) -> None:
    both = union_of(intervals(one), intervals(other)).length()
    assert both == len(points(one) | points(other))
    assert both - intervals(one).length() == len(points(other) - points(one))


@given(PAIRS, PAIRS)
def test_overlaps_count_the_points_of_each_interval_in_the_union_of_others(one: Pairs, other: Pairs) -> None:
    overlaps = intervals(one).overlap_with(intervals(other))
    expected = [len(points([pair]) & points(other)) for pair in one]
    assert overlaps.tolist() == expected


@given(PAIRS, st.integers(0, 70), st.integers(0, 70))
def test_clipped_intervals_have_the_points_between(pairs: Pairs, first: int, last: int) -> None:
    assert intervals(pairs).clip(first, last).length() == len(points(pairs) & set(range(first, last)))


@given(PAIRS.filter(points))
def test_gaps_and_union_fill_the_time_from_first_to_last(pairs: Pairs) -> None:
    filled = [pair for pair in pairs if pair[1]]
    times = intervals(filled)
    gaps = times.gaps()
    assert times.length() + gaps.length() == times.end.max() - times.start.min()
    assert not gaps.overlap_with(times).any()


def test_nothing_has_no_length() -> None:
    assert NONE.length() == 0
    assert NONE.gaps().length() == 0
