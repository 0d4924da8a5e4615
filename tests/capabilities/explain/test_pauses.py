"""Slow steps are named as pauses, with the rank that makes them, and the accident of one step is not."""

from dataclasses import replace

import numpy as np
import pytest
from known import explained, first, hosts, kept, known, late_from

from benchrun.capabilities.explain.evidence import Evidence
from benchrun.measure.steadiness import steadiness


def with_pauses(run: Evidence, steps: list[int], pause_s: float) -> Evidence:
    """``run`` with pauses of rank 1 in the numbered steps, for which the others wait."""
    own = np.array(run.ranks.ranks[1].compute_time_s)
    own[np.array(steps) - 1] += pause_s
    slow = run.ranks.ranks[1].model_copy(update={"compute_time_s": tuple(own.tolist())})
    ranks = run.ranks.model_copy(update={"ranks": (run.ranks.ranks[0], slow, *run.ranks.ranks[2:])})
    return replace(run, ranks=ranks, times=run.times + np.where(np.isin(run.steps, steps), pause_s, 0.0))


def test_a_rank_that_pauses_is_named() -> None:
    run = with_pauses(late_from(45, 0.0), [12, 20, 31, 40], 3.0)
    cause = first(run)
    assert (cause.cause, cause.rank, cause.host) == ("jitter", 1, run.ranks.ranks[1].host)


def test_pauses_of_all_ranks_at_once_are_no_ranks() -> None:
    run = with_pauses(late_from(45, 0.0), [12, 20, 31, 40], 3.0)
    every = tuple(
        rank.model_copy(update={"compute_time_s": run.ranks.ranks[1].compute_time_s}) for rank in run.ranks.ranks
    )
    cause = first(replace(run, ranks=run.ranks.model_copy(update={"ranks": every})))
    assert (cause.cause, cause.rank) == ("jitter", None)


def test_many_slow_steps_of_any_length_are_jitter() -> None:
    times = np.random.default_rng(0).lognormal(1.5, 0.7, 60)
    found = first(known(times=times, steps=60, hosts=None, steadiness=None))
    assert (found.cause, found.kind) == ("jitter", "fault")
    assert found.seconds == pytest.approx(float(np.mean(times) - np.median(times)))


@pytest.mark.parametrize(("apart", "unit"), [(1, "6 of 60 steps are"), (10, "6 of 60 rows, 10 steps apart, are")])
def test_what_is_slow_is_a_step_or_a_row_of_several(apart: int, unit: str) -> None:
    times = 5.0 + np.random.default_rng(0).normal(0, 0.01, 60)
    times[[3, 17, 20, 38, 41, 55]] *= 2
    run = known(times=times, steps=60, hosts=None, steadiness=None)
    assert unit in first(replace(run, steps=apart * run.steps)).evidence


def test_pauses_are_jitter_or_checkpoints() -> None:
    times = np.where(np.arange(40) % 8 == 7, 10.0, 4.28)
    found = first(known(times=times))
    assert (found.cause, found.seconds) == ("jitter", pytest.approx(5 * 5.72 / 40, rel=0.01))
    assert first(known(times=times, saves=True)).cause == "checkpoint"
    garbage = hosts(garbage_s={0: 0.7})
    assert first(known(times=times, hosts=garbage)).cause == "host"


def test_checkpoints_that_are_written_asynchronously_need_other_advice() -> None:
    times = np.where(np.arange(40) % 8 == 7, 10.0, 4.28)
    usual, other = (first(known(times=times, saves=True, saves_async=value)) for value in (False, True))
    assert (usual.cause, other.cause) == ("checkpoint", "checkpoint")
    assert other.advice and other.advice != usual.advice
    assert first(known(times=times, saves_async=True)).cause == "jitter"


def test_every_second_step_that_is_slow_is_jitter() -> None:
    times = np.where(np.arange(40) % 2 == 0, 4.28, 5.28)
    steady = steadiness(times, steps=np.arange(6, 46))
    found = first(known(times=times, steadiness=steady))
    assert (found.cause, found.seconds) == ("jitter", pytest.approx(0.5, rel=0.01))


def test_a_single_step_of_many_times_the_length_is_a_pause() -> None:
    assert first(known(times=np.where(np.arange(40) == 20, 40.0, 4.28))).cause == "jitter"


def test_one_slow_step_is_an_accident_and_noise_is_none() -> None:
    once = np.where(np.arange(40) == 20, 10.0, 4.28)
    random = np.random.default_rng(1).normal(4.28, 0.2, 40)
    for times in (once, random):
        assert "jitter" not in [cause.cause for cause in explained(known(times=times)).causes]


def test_slow_steps_among_steps_that_differ_as_much_are_noise() -> None:
    """A late host makes steps longer, never shorter: that scatter is one-sided."""
    steady = np.array([0.498, 0.500, 0.503, 0.499, 0.500, 0.502, 0.497, 0.608, 0.588])
    uneven = np.array([0.498, 0.571, 0.503, 0.499, 0.500, 0.526, 0.497, 0.608, 0.588])
    for times, named in ((steady, ["jitter"]), (uneven, [])):
        causes = explained(known(times=times, steps=9, hosts=None, steadiness=None)).causes
        assert [cause.cause for cause in causes if cause.cause == "jitter"] == named


@pytest.mark.parametrize(("gpu", "named"), [("H200", [("jitter", 0)]), ("CPU", [])])
def test_a_pause_in_which_a_rank_had_no_core_is_that_ranks_on_gpus(gpu: str, named: list[tuple[str, int]]) -> None:
    times = np.where(np.arange(40) % 8 == 7, 10.0, 4.28)
    quiet = hosts()
    waits = tuple(6.0 if (step - 6) % 8 == 7 else 0.0 for step in range(1, 46))
    ranks = (quiet.ranks[0].model_copy(update={"queued_s": waits}), *quiet.ranks[1:])
    spec = kept().spec.model_copy(update={"gpu": gpu})
    run = known(times=times, spec=spec, hosts=quiet.model_copy(update={"ranks": ranks}))
    assert [(cause.cause, cause.rank) for cause in explained(run).causes if cause.cause == "jitter"] == named


def test_a_rank_that_pauses_once_in_a_short_run_is_named() -> None:
    run = with_pauses(late_from(45, 0.0), [8], 3.0)
    for ranks, named in ((run.ranks, [("jitter", 1)]), (None, [])):
        short = replace(run, times=run.times[:7], steps=run.steps[:7], ranks=ranks)
        faults = [cause for cause in explained(short).causes if cause.cause == "jitter"]
        assert [(cause.cause, cause.rank) for cause in faults] == named
