"""On CPUs other processes take a core when they like: a fault is what the run's own records show beside that."""

from typing import Any

import numpy as np
import pytest
from known import explained, hosts, kept, known, spread

from benchrun.capabilities.explain.evidence import Evidence
from benchrun.capabilities.explain.model import FAULT_SHARE
from benchrun.measure.steadiness import steadiness
from benchrun.rundir.artifacts import Breakdown
from benchrun.rundir.rank_times import HostTimes, RankTimes

CPU = kept().spec.model_copy(update={"gpu": "CPU"})
NUMBERS = np.arange(6, 46)
SLOW = (9, 17, 20, 31)
"""Steps that take three times as long, at no fixed distance."""


def on_cpus(**changed: Any) -> Evidence:
    return known(**{"spec": CPU, "ranks": None, "hosts": None, "breakdown": None, **changed})


def faults(run: Evidence) -> list[tuple[str, int | None]]:
    causes = explained(run).causes
    return [
        (each.cause, each.rank) for each in causes if each.kind == "fault" and each.seconds > FAULT_SHARE * run.step_s
    ]


def times(slow: Any) -> Any:
    return np.where(np.isin(NUMBERS, slow), 3 * 4.28, 4.28)


def of_ranks(slow: Any) -> RankTimes:
    """Rank 2 computes longer in the slow steps."""
    quiet = spread({})
    longer = tuple(3.0 + 2 * 4.28 * (step in slow) for step in range(1, 46))
    late = quiet.ranks[2].model_copy(update={"compute_time_s": longer})
    return quiet.model_copy(update={"ranks": (*quiet.ranks[:2], late, quiet.ranks[3])})


def without_core(slow: Any) -> HostTimes:
    """Rank 2 waits for a core in the slow steps."""
    quiet = hosts()
    waits = tuple(2 * 4.28 * (step in slow) for step in range(1, 46))
    late = quiet.ranks[2].model_copy(update={"queued_s": waits})
    return quiet.model_copy(update={"ranks": (*quiet.ranks[:2], late, quiet.ranks[3])})


def test_slow_steps_of_a_log_alone_may_be_the_machines() -> None:
    steady = steadiness(times(SLOW), steps=NUMBERS)
    assert not faults(on_cpus(times=times(SLOW), steadiness=steady))
    assert faults(known(times=times(SLOW), steadiness=steady)) == [("jitter", None)]  # a GPU shares with nobody


def test_pauses_at_a_fixed_distance_are_the_jobs() -> None:
    slow = range(9, 46, 6)
    run = on_cpus(times=times(slow), steadiness=steadiness(times(slow), steps=NUMBERS))
    assert faults(run) == [("jitter", None)]


@pytest.mark.parametrize(
    ("ranks", "host_times", "named"),
    [
        (of_ranks(SLOW), hosts(), True),
        (of_ranks(SLOW), without_core(SLOW), False),
        (spread({}), hosts(), False),  # in collectives, whose threads wait for cores too
        (of_ranks(SLOW), None, False),
        (None, hosts(), False),
    ],
)
def test_slow_steps_are_the_jobs_where_a_rank_was_longer_and_had_a_core(
    ranks: RankTimes | None, host_times: HostTimes | None, named: bool
) -> None:
    run = on_cpus(times=times(SLOW), ranks=ranks, hosts=host_times)
    assert faults(run) == ([("jitter", 2)] if named else [])


def test_waits_for_a_core_hide_no_pause() -> None:
    """Rank 0 loses its core for 3 s in two of five steps, by which the steps scatter."""
    every = np.arange(1, 46)
    lost = np.where(np.isin(every, SLOW) | (every % 5 > 1), 0.0, 3.0)
    quiet = hosts()
    first = quiet.ranks[0].model_copy(update={"queued_s": tuple(lost)})
    shared = quiet.model_copy(update={"ranks": (first, *quiet.ranks[1:])})
    run = on_cpus(times=times(SLOW) + lost[5:], ranks=of_ranks(SLOW), hosts=shared)
    assert faults(run) == [("jitter", 2)]


def test_a_rank_whose_core_others_use_in_every_step_is_not_blamed() -> None:
    run = on_cpus(ranks=of_ranks(range(1, 46)), hosts=without_core(range(1, 46)))
    assert not faults(run)
    assert faults(on_cpus(ranks=of_ranks(range(1, 46)), hosts=hosts())) == [("slow_rank", 2)]


def profiled(**of_ranks_s: tuple[float, ...]) -> Breakdown:
    """A step of 4 s in which rank 2 waits 2 s less than the others."""
    parts = {"matmul_s": 1.0, "attention_s": 0.2, "other_s": 0.8, "communication_s": 1.6, "idle_s": 0.4}
    waited = (2.1, 2.1, 0.1, 2.1)
    return Breakdown(step_s=4.0, hidden_s=0.0, **parts, communication_of_ranks_s=waited, **of_ranks_s)


@pytest.mark.parametrize(
    ("queued", "named"),
    [((0.1, 0.1, 0.1, 0.1), True), ((0.1, 0.1, 2.0, 0.1), False), ((), False)],
)
def test_a_rank_that_waits_for_nobody_is_slow_where_it_had_a_core(queued: tuple[float, ...], named: bool) -> None:
    run = on_cpus(step_s=4.0, breakdown=profiled(queued_of_ranks_s=queued))
    assert faults(run) == ([("slow_rank", 2)] if named else [])


@pytest.mark.parametrize(
    ("gpu", "queued", "seconds"),
    [
        ("CPU", (0.1, 0.1, 1.1, 0.1), 0.75),
        ("CPU", (0.1, 0.1, 9.1, 0.1), 1.5),
        ("CPU", (0.1, 0.1, 0.1, 0.1), None),
        ("CPU", (), None),
        ("H200", (0.1, 0.1, 1.1, 0.1), None),
    ],
)
def test_waiting_for_a_rank_without_a_core_is_no_communication(
    gpu: str, queued: tuple[float, ...], seconds: float | None
) -> None:
    """Three of four ranks wait 2 s longer than rank 2, at most as long as that one waited for a core."""
    spec = kept().spec.model_copy(update={"gpu": gpu})
    run = on_cpus(step_s=4.0, spec=spec, breakdown=profiled(queued_of_ranks_s=queued), bound=None, ceilings=None)
    found = [part.seconds for part in explained(run).waterfall if part.part == "waiting for a rank without a core"]
    assert found == ([] if seconds is None else [pytest.approx(seconds)])


@pytest.mark.parametrize("gpu", ["CPU", "H200"])
@pytest.mark.parametrize(("wait", "named"), [(0.5, False), (1.5, True)])
def test_a_loader_is_named_by_the_profiled_step(gpu: str, wait: float, named: bool) -> None:
    parts = {"matmul_s": 1.0, "attention_s": 0.2, "other_s": 0.6, "communication_s": 0.2, "idle_s": 2.0}
    step = Breakdown(step_s=4.0, hidden_s=0.0, **parts, data_of_ranks_s=(wait, 0.1, 0.1, 0.1))
    run = on_cpus(
        step_s=4.0, breakdown=step, spec=kept().spec.model_copy(update={"gpu": gpu}), bound=None, ceilings=None
    )
    found = [each for each in explained(run).causes if each.cause == "data"]
    assert [(each.kind, each.seconds) for each in found] == ([("fault", pytest.approx(wait))] if named else [])
