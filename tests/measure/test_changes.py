"""Change points: how often there is a false one, and which are seen."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from selection import pairs

from benchrun.measure.changes import ALPHA, SHORTEST, changes
from benchrun.measure.statistics import Floats

SERIES = 400
"""Random series of each kind: with a rate of 5 % the number of alarms is 20 +- 4.4."""
KINDS = {
    "normal": lambda random, size: random.normal(10, 0.1, size),
    "heavy tails": lambda random, size: random.standard_cauchy(size),
    "skewed": lambda random, size: random.lognormal(0, 1, size),
    "few values": lambda random, size: random.integers(0, 4, size).astype(float),
}


@pytest.mark.parametrize(("kind", "size"), pairs(KINDS, [8, 11, 20, 60]))
def test_random_series_have_a_change_no_more_often_than_stated(kind: str, size: int) -> None:
    random = np.random.default_rng(size)
    alarms = sum(bool(changes(KINDS[kind](random, size))) for _ in range(SERIES))
    most = ALPHA * SERIES + 4 * np.sqrt(ALPHA * (1 - ALPHA) * SERIES)
    assert alarms <= most
    if size > 11 and kind != "few values":
        assert alarms > 0  # the test has the level that it states, and not 0


@settings(max_examples=60, deadline=None)
@given(st.integers(4, 30), st.integers(4, 30), st.floats(0.01, 100), st.integers(0, 2**32 - 1))
def test_a_step_far_beyond_the_noise_is_seen_where_it_is(before: int, after: int, level: float, seed: int) -> None:
    noise = np.random.default_rng(seed).uniform(-0.001, 0.001, before + after)
    series = level * (1 + noise + np.repeat([0, 0.1], [before, after]))
    assert before in [cut.place for cut in changes(series)]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(1e-3, 1e3), min_size=0, max_size=40))
def test_the_unit_is_of_no_matter_and_for_whether_there_is_a_change_only_the_order_is(values: list[float]) -> None:
    cuts = changes(values)
    assert bool(cuts) == bool(changes(np.unique(values, return_inverse=True)[1]))
    assert cuts == changes([1024 * value for value in values])
    assert [cut.place for cut in cuts] == sorted({cut.place for cut in cuts})
    assert all(0 < cut.place < len(values) and 0 < cut.chance <= ALPHA for cut in cuts)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=SHORTEST - 1))
def test_too_short_a_series_has_no_change(values: list[float]) -> None:
    assert changes(values) == []


def steps(*levels: tuple[float, int]) -> Floats:
    random, parts = np.random.default_rng(3), [np.full(runs, level) for level, runs in levels]
    return np.concatenate(parts) * random.normal(1, 0.003, sum(runs for _, runs in levels))


@pytest.mark.parametrize(
    ("series", "places"),
    [
        (steps((1.0, 20), (1.05, 20)), [20]),
        (steps((1.0, 20), (1.05, 20), (0.98, 20)), [20, 40]),
        (steps((1.0, 15), (1.05, 15), (1.0, 15), (1.1, 15)), [15, 30, 45]),
        (steps((1.0, 40)), []),
        (np.full(30, 2.5), []),
        (np.where(np.arange(30) == 17, 9.0, steps((1.0, 30))), []),  # one slow run is no change
        (steps((1.0, 29), (2.0, 1)), []),
    ],
)
def test_planted_changes_are_seen_at_their_place(series: Floats, places: list[int]) -> None:
    assert [cut.place for cut in changes(series)] == places
