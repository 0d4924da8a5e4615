"""Spread and confidence over a window of rows."""

import math
import os
import statistics
import subprocess
import sys
import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy import ndarray
from numpy.random._generator import Generator

from benchrun.measure.statistics import (
    NORMAL_95,
    confidence_interval,
    effective_rows,
    median_bounds,
    spread,
    warmup_rows,
)


def percentile(ordered: list[float], fraction: float) -> float:
    """Linear interpolation between the two nearest values, written out."""
    position = fraction * (len(ordered) - 1)
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)


def series(rng: Generator, rows: int, phi: float, runs: int) -> ndarray:
    """Runs of a first-order autoregressive process (white noise at phi 0); mean and median 0, deviation 1."""
    noise = rng.standard_normal((runs, rows))
    found = np.empty_like(noise)
    found[:, 0] = noise[:, 0]
    for row in range(1, rows):
        found[:, row] = phi * found[:, row - 1] + math.sqrt(1 - phi**2) * noise[:, row]
    return found


@pytest.mark.parametrize(("rows", "dropped"), [(0, 0), (1, 0), (4, 2), (10, 5), (50, 5), (51, 6), (500, 50)])
def test_the_warm_up_rule(rows: int, dropped: int) -> None:
    assert warmup_rows(rows) == dropped


def test_a_row_counts_as_often_as_the_steps_it_averages() -> None:
    assert spread([1.0, 3.0], [1, 3]).mean == 2.5
    assert spread([1.0, 3.0], [2, 2]).mean == 2.0
    assert spread([2.0]).stdev == 0.0


@given(st.lists(st.tuples(st.floats(0.001, 1000), st.integers(1, 20)), min_size=1, max_size=30))
def test_weights_mean_the_list_written_out(rows: Any) -> None:
    values, weights = [value for value, _ in rows], [weight for _, weight in rows]
    same = len(set(weights)) == 1
    expanded = sorted(values if same else [value for value, weight in rows for _ in range(weight)])
    found = spread(values, weights)
    close = {"rel": 1e-9, "abs": 1e-9}
    assert found.mean == pytest.approx(statistics.fmean(expanded), **close)
    assert found.median == pytest.approx(statistics.median(expanded), **close)
    assert found.stdev == pytest.approx(statistics.stdev(expanded) if len(expanded) > 1 else 0, rel=1e-6, abs=1e-9)
    assert found.p5 == pytest.approx(percentile(expanded, 0.05), **close)
    assert found.p95 == pytest.approx(percentile(expanded, 0.95), **close)


def test_equal_values_have_exactly_their_mean_and_no_deviation() -> None:
    found = spread([0.1] * 7, [1, 2, 3, 4, 5, 6, 7])
    assert (found.mean, found.median, found.stdev) == (0.1, 0.1, 0.0)


def test_arrays_and_lists_are_the_same() -> None:
    values = np.random.default_rng(0).lognormal(size=100)
    assert spread(values) == spread(values.tolist())


def test_weights_must_fit_the_values() -> None:
    with pytest.raises(ValueError, match="3 values but 2 weights"):
        spread([1.0, 2.0, 3.0], [1, 2])


def test_a_million_rows_take_seconds_at_most() -> None:
    values = np.random.default_rng(0).standard_normal(1_000_000)
    start = time.perf_counter()
    spread(values, np.arange(1, 1_000_001))
    confidence_interval(values)
    assert time.perf_counter() - start < 10


@pytest.mark.parametrize(
    ("phi", "rows", "least"),
    [(0.0, 30, 0.93), (0.0, 200, 0.93), (0.5, 45, 0.93), (0.8, 45, 0.88), (0.8, 200, 0.93), (0.8, 1000, 0.93)],
)
def test_the_interval_holds_the_median_95_times_in_100(phi: float, rows: int, least: float) -> None:
    """Of 2000 runs; 45 rows that hang together so much are worth 5, from which nobody can tell that they do."""
    runs = series(np.random.default_rng(1), rows, phi, 2000)
    found = [confidence_interval(run) for run in runs]
    covered = sum(interval.low <= 0 <= interval.high for interval in found) / len(found)
    assert least <= covered <= 0.995


def test_taking_correlated_rows_for_independent_ones_would_promise_too_much() -> None:
    runs = series(np.random.default_rng(2), 200, 0.8, 2000)
    bounds = [median_bounds(run, run.size, NORMAL_95) for run in runs]
    assert sum(low <= 0 <= high for low, high in bounds) / len(bounds) < 0.7


def test_effective_rows_of_a_known_process() -> None:
    """phi 0.8 has the autocorrelation time (1 + 0.8) / (1 - 0.8) = 9; in ranks a little less."""
    correlated = series(np.random.default_rng(3), 20_000, 0.8, 1)[0]
    assert correlated.size / effective_rows(correlated) == pytest.approx(8.6, rel=0.15)
    white = series(np.random.default_rng(3), 20_000, 0.0, 1)[0]
    assert effective_rows(white) > 0.9 * white.size


def test_one_stall_hides_no_correlation() -> None:
    calm = series(np.random.default_rng(4), 500, 0.8, 1)[0]
    stalled = calm.copy()
    stalled[250] = 1e6
    assert effective_rows(stalled) == pytest.approx(effective_rows(calm), rel=0.1)


def test_the_interval_stays_within_the_values_and_around_their_median() -> None:
    found = confidence_interval([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    assert found is not None
    assert (found.low, found.high, found.level) == (1.0, 6.0, 0.95)
    same = confidence_interval([2.0] * 50)
    assert same is not None
    assert (same.low, same.high, same.effective_rows) == (2.0, 2.0, 50)


STATISTICS = """
import numpy
from benchrun.measure.statistics import confidence_interval, spread
for rows in range(2, 400):
    generator = numpy.random.default_rng(rows)
    values, weights = generator.normal(1, 0.01, rows), generator.integers(1, 5, rows)
    print(spread(values), spread(values, weights), confidence_interval(values))
"""


def test_the_last_digit_does_not_depend_on_the_cpu() -> None:
    """numpy's BLAS has other kernels, which add in another order, for every generation of x86."""
    found = {
        subprocess.run(
            [sys.executable, "-c", STATISTICS],
            env={**os.environ, "OPENBLAS_CORETYPE": cpu},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for cpu in ("Prescott", "Haswell")
    }
    assert len(found) == 1
