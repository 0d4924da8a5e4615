"""Of a few steps all that was seen is the interval, and a drift within them is named."""

from collections import Counter

import numpy as np
import pytest
from numpy import ndarray
from selection import some

from benchrun.measure.statistics import confidence_interval
from benchrun.measure.steadiness import Steadiness, steadiness

RISING = [12.8, 13.0, 14.5, 14.7]


def judge(times: list[float] | ndarray) -> Steadiness:
    return steadiness(times, steps=range(1, len(times) + 1))


@pytest.mark.parametrize("rows", [2, 3, 4, 5])
def test_the_interval_of_few_rows_is_all_that_was_seen_at_the_level_it_has(rows: int) -> None:
    rng = np.random.default_rng(rows)
    runs = [rng.standard_normal(rows) for _ in range(2000)]
    found = [confidence_interval(run) for run in runs]
    assert all((each.low, each.high) == (run.min(), run.max()) for each, run in zip(found, runs, strict=True))
    held = np.mean([each.low <= 0 <= each.high for each in found])
    assert found[0].level == pytest.approx(held, abs=0.03)


def test_one_row_has_no_interval() -> None:
    assert confidence_interval([1.0]) is None


@pytest.mark.parametrize(
    ("times", "verdict"), [(RISING, "drifting"), (RISING[::-1], "drifting"), (RISING[:2], "too_short")]
)
def test_a_drift_shows_in_few_rows(times: list[float], verdict: str) -> None:
    found = judge(times)
    assert (found.verdict, bool(found.drift_pct)) == (verdict, verdict == "drifting")
    if found.drift_pct:
        assert found.drift_pct == pytest.approx(12.4 if times == RISING else -12.4, abs=0.1)


def test_a_drift_of_two_percent_in_few_rows_is_not_named() -> None:
    assert judge([10.0, 10.1, 10.1, 10.2, 10.2]).verdict == "too_short"


@pytest.mark.parametrize("rows", [4, 5, 8, 12, 19])
def test_noise_in_few_rows_is_seldom_a_drift(rows: int) -> None:
    rng = np.random.default_rng(rows)
    found = Counter(judge(1 + 0.05 * rng.standard_normal(rows)).verdict for _ in range(500))
    assert found["drifting"] < 0.12 * 500


@pytest.mark.parametrize("rows", [8, 12, 19])
def test_a_drift_in_noise_is_found(rows: int) -> None:
    rng = np.random.default_rng(rows)
    times = (1 + 0.005 * rng.standard_normal(rows)) * np.linspace(1, 1.15, rows)
    assert judge(times).verdict == "drifting"


def test_one_slow_step_among_few_is_no_drift() -> None:
    assert judge([1.0, 1.01, 1.0, 1.4, 1.0, 1.01]).verdict == "too_short"


@pytest.mark.parametrize(("rows", "period", "count"), [(10, 65, 225), (10, 37, 100), (5, 12, 90), (100, 650, 60)])
def test_a_period_is_counted_in_steps_that_no_row_stands_for_alone(rows: int, period: int, count: int) -> None:
    """Rows average so many steps; a slow step every ``period`` falls into rows of no fixed distance."""
    for seed in range(3):
        rng = np.random.default_rng(seed)
        steps = 1 + 0.03 * rng.standard_normal(rows * count)
        steps[rng.integers(period) :: period] += 0.15 * rows
        found = steadiness(steps.reshape(count, rows).mean(axis=1), steps=range(rows, rows * count + 1, rows))
        assert (found.verdict, found.period) == ("periodic", pytest.approx(period, abs=rows // 10))


@pytest.mark.parametrize(("rows", "count", "runs"), some([(10, 90, 60), (50, 45, 100)], 1))
def test_noise_in_averaged_rows_is_no_period(rows: int, count: int, runs: int) -> None:
    rng = np.random.default_rng(count)
    numbers = range(rows, rows * count + 1, rows)
    found = Counter(steadiness(1 + 0.02 * rng.standard_normal(count), steps=numbers).verdict for _ in range(runs))
    assert found["periodic"] <= 0.02 * runs
