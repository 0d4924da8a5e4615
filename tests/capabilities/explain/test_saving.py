"""A cure's saving is said with an interval, where the run's own steps show it."""

import numpy as np
import pytest
from known import explained, first, hosts, known, late_from, spread

from benchrun.capabilities.explain.choices import choices
from benchrun.capabilities.explain.model import Part, Saving
from benchrun.capabilities.explain.saving import filled, of_share, saving
from benchrun.capabilities.explain.view import explanation_text
from benchrun.capabilities.explain.waterfall import MEMORY_AT_SPEED, MEMORY_BEYOND


def saved(cause: object) -> Saving:
    found = getattr(cause, "saving_s", None)
    assert isinstance(found, Saving)
    assert 0 <= found.low <= found.median <= found.high
    return found


def test_nine_of_ten_intervals_hold_the_truth() -> None:
    """A pause of 2 s in every tenth step, by chance: 0.2 s of a step."""
    random, held = np.random.default_rng(0), 0
    for _ in range(200):
        steps = np.where(random.random(100) < 0.1, 2.0, 0.0)
        found = saved(type("", (), {"saving_s": saving(float(np.mean(steps)), steps)}))
        held += found.low <= 0.2 <= found.high
    assert 165 <= held <= 195


def test_steps_that_follow_each_other_tell_less() -> None:
    random = np.random.default_rng(0)
    alone = random.normal(1.0, 0.1, 400)
    together = np.repeat(alone[:40], 10)
    widths = []
    for steps in (alone, together):
        found = saving(float(np.mean(steps)), steps)
        assert found is not None
        widths.append(found.high - found.low)
    assert widths[1] > 2 * widths[0]


def test_one_step_has_no_interval() -> None:
    assert saving(1.0, np.array([1.0])) is None


@pytest.mark.parametrize("step", [6, 25])
def test_a_late_rank_saves_what_it_is_behind(step: int) -> None:
    run = late_from(step, 0.6)
    cause = first(run)
    found, truth = saved(cause), 0.6 * float(np.mean(run.steps >= step))
    assert cause.rank == 2
    assert found.median == pytest.approx(cause.seconds, abs=1e-6)
    assert found.low < truth < found.high + 0.02
    assert found.high - found.low < 0.6 * truth


def test_curing_one_of_two_late_ranks_may_save_nothing() -> None:
    cause = first(known(ranks=spread({1: 0.9, 3: 0.9001})))
    assert (cause.cause, saved(cause).low) == ("slow_rank", pytest.approx(0.0001, abs=1e-3))


def test_pauses_data_and_collections_have_an_interval() -> None:
    times = np.where(np.arange(40) % 8 == 7, 10.0, 4.28)
    assert saved(first(known(times=times))).high > first(known(times=times)).seconds
    delayed = known(hosts=hosts(data_s={1: 0.5}, garbage_s={2: 0.3}))
    for cause in explained(delayed).causes:
        if cause.cause in ("data", "host"):
            assert saved(cause).high == pytest.approx(cause.seconds)
    assert {"data", "host"} <= {cause.cause for cause in explained(delayed).causes}


def test_all_that_can_be_mended_has_one() -> None:
    """A GPU at its usual clock has nothing to mend."""
    causes = explained(known(hosts=None, ranks=None)).causes
    assert {cause.cause for cause in causes if cause.saving_s is None} == {"power"}
    best = [max(cure.saving_s.high for cure in cause.cures if cure.saving_s) for cause in causes[1:2]]
    assert best == [causes[1].saving_s.high if causes[1].saving_s else None]


def test_filled_gaps_save_less_where_kernels_are_many() -> None:
    """Kernels become slower, and at most all of the gap is saved."""
    full, idle = filled(0.1, 0.9), filled(0.1, 0.0)
    assert full.low < full.median < full.high == 0.1
    assert idle.low == idle.high == 0.1


def test_a_cure_of_half_the_launches_saves_about_half_a_step() -> None:
    share = of_share(filled(0.9, 0.1), 0.8, 1.1, 0.5)
    assert (share.low, share.high) == (pytest.approx(0.4), pytest.approx(0.55))


@pytest.mark.parametrize(("host_s", "named"), [(0.1, True), (1.5, False)])
def test_faster_kernels_save_nothing_while_the_gpu_waits_for_the_host(host_s: float, named: bool) -> None:
    parts = []
    for name, seconds, cause in (
        (MEMORY_AT_SPEED, 0.2, None),
        (MEMORY_BEYOND, 1.2, "memory_bound"),
        ("no kernel: the host", host_s, "host"),
    ):
        parts.append(Part(part=name, seconds=seconds, cause=cause, evidence="breakdown.json"))
    found = {cause.cause for cause in choices(known(), parts)}
    assert ("memory_bound" in found) is named


def test_the_text_says_it_in_a_phrase() -> None:
    run = late_from(6, 0.6)
    found = saved(first(run))
    assert f"a cure saves {found.low:.4g} to {found.high:.4g} s" in explanation_text(explained(run))
