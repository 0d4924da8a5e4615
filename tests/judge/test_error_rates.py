"""The error rates that a verdict states are those that are observed over many draws from real step series."""

import csv
import functools
import itertools
import math
import statistics
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchrun import paths
from benchrun.judge import rates
from benchrun.judge.checks import speed_check
from benchrun.judge.conditions import conditions
from benchrun.judge.measured import MeasuredRun, load_measured, measured_references, repeats
from benchrun.judge.uneven import too_uneven
from benchrun.measure.model import Metrics
from benchrun.measure.statistics import confidence_interval, spread

DRAWS = 1000
ROWS = 24
SMOOTH = 0.3
FAR = 3.5
"""Standard deviations of a binomial number: beyond once in 2,000 tests."""


def counted(run: MeasuredRun) -> bool:
    return run.spec.profiler == "none" and run.metrics.step_time_s is not None


@functools.cache
def series() -> list[tuple[MeasuredRun, np.ndarray]]:
    """Step times of the window of kept runs with enough steps for an interval, without long stalls."""
    found = []
    for run in filter(counted, load_measured()):
        window = run.metrics.window
        times = []
        for number, step_time_s, *_ in sorted(run.steps, key=lambda row: row[0]):
            if window and window.first_step <= number <= window.last_step and step_time_s:
                times.append(step_time_s)
        if len(times) >= 10 and not too_uneven([run.metrics]):
            found.append((run, np.array(times)))
    return found


def drawn(run: MeasuredRun, times: np.ndarray, shift: float, generator: np.random.Generator) -> Metrics:
    """A run of steps like those of ``run``, all of them slower by ``shift`` in logarithms.

    A little noise keeps medians apart: of few rows many draws would have exactly the median of all.
    """
    steps = generator.choice(times, ROWS) + generator.normal(0, SMOOTH * times.std(), ROWS)
    steps *= math.exp(shift)
    found: dict[str, Any] = {
        "step_time_s": spread(steps),
        "step_time_interval_s": confidence_interval(steps),
        "steadiness": None,
    }
    found["window"] = run.metrics.window and run.metrics.window.model_copy(update={"rows": ROWS})
    return run.metrics.model_copy(update=found)


def judged(slower: float, runs: int, *, own: bool) -> tuple[list[bool], list[float], list[bool], list[float]]:
    """What was observed and stated over draws of runs that are slower by ``slower`` in logarithms than a reference,
    a published number or (``own``) a run with the same noise."""
    generator = np.random.default_rng(7)
    slow, alarms, passed, misses = [], [], [], []
    for _ in range(DRAWS):
        run, times = series()[generator.integers(len(series()))]
        deviation = generator.choice(rates.deviations())
        reference = measured_references([run])[0]
        value = float(np.median(times))
        if own:
            first = drawn(run, times, generator.normal(0, deviation), generator).step_time_s
            value = first.median if first else value
        flags = ("measured",) if own else ()
        reference = reference.model_copy(update={"value": value, "flags": flags})
        metrics = []
        for _ in range(runs):
            metrics.append(drawn(run, times, slower + generator.normal(0, deviation), generator))
        check = speed_check(reference, conditions(run.spec), metrics)
        stated = rates.rates_of(check, metrics)
        if stated["false_alarm"] is None or stated["miss_at_5_percent"] is None:
            continue
        slow.append(check.verdict == "slow")
        passed.append(check.verdict == "pass")
        alarms.append(stated["false_alarm"])
        misses.append(stated["miss_at_5_percent"])
    return slow, alarms, passed, misses


def agrees(observed: list[bool], stated: list[float]) -> bool:
    expected = sum(stated)
    limit = FAR * math.sqrt(sum(rate * (1 - rate) for rate in stated) + 1)
    return abs(sum(observed) - expected) <= limit


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("runs", [1, 3])
def test_stated_and_observed_rates_agree(runs: int, own: bool) -> None:
    slow, alarms, _, _ = judged(0.0, runs, own=own)
    assert len(slow) > 0.8 * DRAWS
    assert agrees(slow, alarms), (sum(slow), sum(alarms))
    _, _, passed, misses = judged(-math.log(rates.SLOWER), runs, own=own)
    assert agrees(passed, misses), (sum(passed), sum(misses))


def planted(run: MeasuredRun, share: float) -> Metrics:
    """The metrics of ``run`` at a share of its speed."""
    time, interval = run.metrics.step_time_s, run.metrics.step_time_interval_s
    found: dict[str, Any] = {}
    for name, value in (("step_time_s", time), ("step_time_interval_s", interval)):
        ends = {}
        for key, number in value.model_dump().items() if value else ():
            ends[key] = number if key in ("effective_rows", "level") else number / share
        found[name] = value and value.model_copy(update=ends)
    return run.metrics.model_copy(update=found)


def test_rates_of_pairs_of_kept_repeats_agree_too() -> None:
    """No draw: every kept run against another run of its point, as they were."""
    for share, verdict, rate in ((1.0, "slow", "false_alarm"), (rates.SLOWER, "pass", "miss_at_5_percent")):
        observed, stated = [], []
        for group in repeats([run for run in load_measured() if counted(run)]):
            for one, other in itertools.permutations(group, 2):
                check = speed_check(measured_references([one])[0], conditions(other.spec), [planted(other, share)])
                value = dict(rates.rates_of(check, [other.metrics]))[rate]
                if value is not None:
                    observed.append(check.verdict == verdict)
                    stated.append(value)
        assert len(observed) >= 20
        assert agrees(observed, stated), (rate, len(observed), sum(observed), sum(stated))


def table(runs: dict[str, int] | None = None) -> list[list[Any]]:
    """The rows of repeats.csv: of all points with repeats, or of those that ``runs`` begin, with their number."""
    rows: list[list[Any]] = []
    for group in repeats([run for run in load_measured() if counted(run)]):
        kept = group[: runs.get(group[0].name, 0)] if runs is not None else group
        if len(kept) < 2:
            continue
        times = [math.log(run.metrics.step_time_s.median) for run in kept if run.metrics.step_time_s]
        own = statistics.mean(rates.standard_error(run.metrics) ** 2 for run in kept)
        deviation = max(statistics.variance(times) - own, 0) ** 0.5
        spec = kept[0].spec
        rows.append([spec.recipe, spec.framework, spec.gpu, spec.num_gpus, len(kept), f"{deviation:.4f}", kept[0].name])
    return rows


def test_the_table_of_deviations_is_that_of_kept_runs() -> None:
    """`python tests/judge/test_error_rates.py` writes it anew, with the points kept since."""
    stored = paths.table(rates.__file__, "repeats.csv")
    found = table({row["first_run"]: int(row["runs"]) for row in stored})
    assert [list(map(str, row)) for row in found] == [list(row.values()) for row in stored]


def test_too_few_steps_have_no_rates_but_a_reason() -> None:
    run, times = series()[0]
    few = drawn(run, times, 0.0, np.random.default_rng(1)).model_copy(
        update={"step_time_interval_s": confidence_interval(times[:4])}
    )
    check = speed_check(measured_references([run])[0], conditions(run.spec), [few])
    stated = rates.rates_of(check, [few])
    assert (stated["false_alarm"], stated["miss_at_5_percent"], stated["from"]) == (None, None, None)
    assert "4 independent" in str(stated["reason"])


def test_rates_of_a_prediction_are_those_of_its_interval() -> None:
    """Against the same rule on draws from the distribution that the interval states."""
    generator = np.random.default_rng(3)
    for width in (0.03, 0.1, 0.4):
        stated = rates.rates_of_prediction(1.0, math.exp(width))
        steps = np.exp(generator.normal(0, width / 1.6449, DRAWS))
        assert agrees(list(steps > math.exp(width)), [stated["false_alarm"]] * DRAWS)
        slower = steps / rates.SLOWER
        assert agrees(list(slower <= math.exp(width)), [stated["miss_at_5_percent"]] * DRAWS)


if __name__ == "__main__":
    with Path(rates.__file__).with_name("repeats.csv").open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["recipe", "framework", "gpu", "num_gpus", "runs", "deviation", "first_run"])
        writer.writerows(table())
