"""The step time of rows whose clock shows whole seconds."""

import numpy as np
import pytest

from benchrun.measure.clock import middle
from benchrun.measure.statistics import Floats, Ints


def _rows(step_s: Floats) -> tuple[Floats, Ints, Ints]:
    """Mean step time in s, number of steps and last step of each row: it ends where the clock shows a new second."""
    clock = np.floor(np.cumsum(step_s))
    ends = np.flatnonzero(np.diff(clock)) + 1
    steps = np.diff(ends)
    return np.diff(clock[ends]) / steps, steps, ends[1:]


@pytest.mark.parametrize(
    ("step_s", "steps", "factor", "slow", "first"),
    [
        (0.634, 95, 4, 2, 33),
        (0.8, 60, 4, 3, 47),
        (0.45, 95, 3, 5, 47),
        (0.3, 95, 6, 8, 26),
    ],
)
def test_slow_steps_in_a_row_do_not_move_the_step_time(
    step_s: float, steps: int, factor: float, slow: int, first: int
) -> None:
    times = np.full(steps, step_s)
    times[first : first + slow] *= factor
    assert middle(*_rows(times), coarse=True) == pytest.approx(step_s, rel=0.05)


def test_rows_beside_a_slow_row_count() -> None:
    spans = np.array([7.0, 8.0, 7.0, 8.0, 30.0, 7.0, 8.0, 7.0, 8.0])
    steps = np.full(len(spans), 5)
    assert middle(spans / steps, steps, np.cumsum(steps), coarse=True) == pytest.approx(1.5)


def test_rows_that_differ_by_their_rounding_alone_give_their_mean() -> None:
    rows = _rows(np.full(20, 9.1884))
    assert middle(*rows, coarse=False) == pytest.approx(9.1884, rel=0.01)


@pytest.mark.parametrize("step_s", [0.6654, 0.8, 1.3, 2.7, 5.2])
@pytest.mark.parametrize("stalls", [0, 1, 2])
def test_stalls_make_the_step_time_neither_longer_nor_shorter(step_s: float, stalls: int) -> None:
    """The mean over phases of the clock and places of the stalls, of half a minute each."""
    random, errors = np.random.default_rng(7), []
    for phase in np.linspace(0, 0.95, 40):
        times = np.full(round(35 / step_s), step_s)
        times[0] += phase
        times[random.integers(3, len(times) - 3, stalls)] *= 3 + 4 * random.random()
        rows = _rows(times)
        errors.append(middle(*rows, coarse=True) / step_s - 1)
    assert abs(np.mean(errors)) < 0.01


@pytest.mark.parametrize("step_s", [1.3, 2.7, 5.3603, 7.5, 9.1884])
@pytest.mark.parametrize("every", [3, 5, 8])
@pytest.mark.parametrize("coarse", [True, False])
def test_a_second_at_each_end_of_a_stretch_does_not_move_the_step_time(step_s: float, every: int, coarse: bool) -> None:
    """Rows with a checkpoint are left out, so each stretch between two begins and ends at any part of a second."""
    errors = []
    for phase in np.linspace(0, 0.95, 40):
        times = np.full(40, step_s)
        times[0] += phase
        times[every::every] += 9.6 + phase
        clock = np.floor(np.cumsum(times))
        numbers = np.array([step for step in range(1, 40) if step % every])
        spans = np.diff(clock)[numbers - 1]
        errors.append(middle(spans, np.ones_like(numbers), numbers, coarse=coarse) / step_s - 1)
    assert np.max(np.abs(errors)) < 1 / step_s / (every - 1)
    assert abs(np.mean(errors)) < 0.002
