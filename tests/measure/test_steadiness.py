"""What makes the steps of a run uneven is named, and nothing is named that is not there."""

from collections import Counter
from typing import Any

import numpy as np
import pytest
from numpy import ndarray
from selection import some

from benchrun.measure.steadiness import Steadiness, steadiness

STEP = 1.17
"""Time of a plain step in these runs, in s."""


def run(rows: int, noise: float = 0.005, seed: int = 0) -> ndarray:
    return STEP * (1 + noise * np.random.default_rng(seed).standard_normal(rows))


def judge(times: ndarray, first: Any = 6) -> Steadiness:
    return steadiness(times, steps=range(first, first + len(times)))


@pytest.mark.parametrize("noise", [0.0, 0.002, 0.02])
@pytest.mark.parametrize("period", [*range(2, 13), 17, 25, 50, 64, 99, 100])
def test_a_slow_row_every_so_many_is_found_at_any_offset(period: int, noise: float) -> None:
    rows = max(5 * period, 30)
    for offset in sorted({0, 1, period // 2, period - 1}):
        times = run(rows, noise, seed=offset)
        times[np.arange(rows) % period == offset] += 0.18 * STEP
        found = judge(times)
        assert (found.verdict, found.period) == ("periodic", period)
        assert found.periodic_excess_s == pytest.approx(0.18 * STEP, rel=0.25)


@pytest.mark.parametrize("period", [7, 10, 40, 100])
def test_three_occurrences_are_enough_and_two_are_not(period: int) -> None:
    times = run(3 * period)
    times[period - 1 :: period] += 0.21
    assert judge(times).period == period
    assert judge(times[:-1]).period is None


@pytest.mark.parametrize("noise", [0.0, 0.002, 0.02])
@pytest.mark.parametrize("share", [0.3, 0.5, 0.7])
@pytest.mark.parametrize("in_turn", [True, False])
def test_a_median_between_two_speeds_is_that_of_no_step(noise: float, share: float, in_turn: bool) -> None:
    places = np.arange(80) % 10 / 10 if in_turn else np.arange(80) / 80
    times = run(80, noise) * np.where(places < share, 2.0, 1.0)
    assert judge(times).speeds_s == pytest.approx((STEP, 2 * STEP), rel=0.02)
    assert judge(run(80, noise)).speeds_s is None
    assert judge(run(80, noise) * np.linspace(1, 2, 80)).speeds_s is None


def test_the_sentence_says_what_a_person_would() -> None:
    times = np.full(100, 1.17)
    times[4::10] = 1.38
    found = judge(times)
    assert found.detail == "every 10th step is 0.21 s (17.9 %) slower: garbage collection, logging or checkpoints?"
    assert found.outliers == 0


@pytest.mark.parametrize(("period", "name"), [(2, "2nd"), (3, "3rd"), (11, "11th"), (21, "21st"), (100, "100th")])
def test_the_period_is_spelt(period: int, name: str) -> None:
    times = np.full(600, STEP)
    times[::period] += 0.3
    assert judge(times).detail.startswith(f"every {name} step is 0.3 s")


def test_slow_rows_beside_a_period_are_counted_too() -> None:
    """Three of ten rows are slow: a comb has one of them, the others stalled."""
    times = run(100)
    for offset in (2, 5, 8):
        times[offset::10] += 9 * STEP
    found = judge(times)
    assert (found.verdict, found.period, found.outliers) == ("periodic", 10, 20)
    assert "of the others 20 of 90 stalled" in found.detail


def test_a_period_is_counted_in_steps_where_a_row_stands_for_ten() -> None:
    times = run(120)
    times[3::6] += 0.2
    assert steadiness(times, steps=range(10, 1210, 10)).period == 60


def test_a_period_is_found_where_rows_are_missing() -> None:
    steps = np.arange(1, 301)
    times = run(300)
    times[steps % 10 == 0] += 0.2
    kept = np.random.default_rng(5).random(300) > 0.1
    assert steadiness(times[kept], steps=steps[kept].tolist()).period == 10


@pytest.mark.parametrize("period", [2, 10])
def test_a_period_and_a_drift_are_both_measured(period: int) -> None:
    times = run(300) + STEP * 0.06 * np.arange(300) / 300
    times[::period] += 0.2
    found = judge(times)
    assert (found.verdict, found.period) == ("periodic", period)
    assert found.drift_pct == pytest.approx(4, abs=1)


@pytest.mark.parametrize(("rows", "stalls"), [(30, (4, 14)), (60, (20, 40)), (300, (99, 199)), (300, (50, 51))])
def test_two_stalls_are_no_period(rows: int, stalls: tuple[int, int]) -> None:
    times = run(rows)
    times[list(stalls)] += 5
    found = judge(times)
    assert (found.verdict, found.period, found.outliers) == ("steady", None, 2)
    assert f"2 of {rows} stalled, the longest took 6.1" in found.detail


@pytest.mark.parametrize("slope", [0.048, -0.048])
def test_a_drift_is_named_with_its_size(slope: float) -> None:
    times = run(150) * (1 + slope * np.arange(150) / 150)
    found = judge(times)
    assert found.verdict == "drifting"
    assert found.drift_pct == pytest.approx(100 * slope * 2 / 3, abs=0.5)
    assert ("slower" if slope > 0 else "faster") in found.detail


@pytest.mark.parametrize("at", [0.4, 0.5, 0.7])
def test_a_jump_is_a_drift_too(at: float) -> None:
    times = run(150)
    times[int(at * 150) :] *= 1.1
    found = judge(times)
    assert found.verdict == "drifting"
    assert found.drift_pct == pytest.approx(10, abs=1)


def test_a_drift_below_one_percent_is_not_worth_a_word() -> None:
    found = judge(run(150, noise=0.0005) * (1 + 0.012 * np.arange(150) / 150))
    assert found.verdict == "steady"
    assert found.drift_pct == pytest.approx(0.8, abs=0.1)


def test_stalls_are_no_drift() -> None:
    times = run(90)
    times[60::4] += 4
    assert abs(judge(times).drift_pct) < 1


def test_a_run_that_varies_a_lot_is_noisy() -> None:
    assert judge(run(200, noise=0.1)).verdict == "noisy"


def test_a_run_that_often_stalls_is_noisy() -> None:
    times = run(200)
    times[np.random.default_rng(7).choice(200, 20, replace=False)] += 1
    found = judge(times)
    assert (found.verdict, found.outliers) == ("noisy", 20)


def test_a_short_run_is_not_judged() -> None:
    found = judge(run(19))
    assert (found.verdict, found.period, found.periodic_excess_s) == ("too_short", None, None)
    assert (found.drift_pct, found.outliers) == (0, 0)


def test_equal_steps_are_steady() -> None:
    assert judge(np.full(50, STEP)).detail == "steps vary by 0.0 %"


@pytest.mark.parametrize(("rows", "runs"), [(90, 500), *some([(20, 2000), (45, 1500), (300, 150)], 0)])
def test_noise_is_nothing_else(rows: int, runs: int) -> None:
    rng = np.random.default_rng(rows)
    found = Counter(judge(STEP * (1 + 0.02 * rng.standard_normal(rows))).verdict for _ in range(runs))
    assert found["steady"] >= 0.98 * runs


@pytest.mark.parametrize(("rows", "runs", "most"), some([(45, 1000, 0.05), (150, 500, 0.02)], 1))
def test_noise_that_hangs_together_is_seldom_a_drift(rows: int, runs: int, most: float) -> None:
    """Autoregressive with 0.8: 45 such rows are worth 5, and some of those runs do look like a drift."""
    rng = np.random.default_rng(rows)
    noise = rng.standard_normal((runs, rows))
    for row in range(1, rows):
        noise[:, row] = 0.8 * noise[:, row - 1] + 0.6 * noise[:, row]
    found = Counter(judge(STEP * (1 + 0.02 * times)).verdict for times in noise)
    assert found["drifting"] + found["periodic"] <= most * runs


@pytest.mark.parametrize("step_s", [10.2, 10.5, 16.5, 17.17, 17.33, 29.9])
def test_even_steps_are_steady_by_a_clock_of_whole_seconds(step_s: float) -> None:
    seen = np.diff(np.floor(np.arange(61) * step_s))
    found = steadiness(seen, steps=range(60), resolution_s=1.0)
    assert (found.verdict, found.outliers) == ("steady", 0)
    assert found.detail.startswith("steps vary by at most ")


def test_a_clock_of_whole_seconds_hides_no_stall() -> None:
    seen = np.diff(np.floor(np.cumsum([17.3] * 30 + [25.0] + [17.3] * 30)))
    assert steadiness(seen, steps=range(60), resolution_s=1.0).outliers == 1
