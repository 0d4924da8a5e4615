"""The least that a step takes, and what a layout or a recipe costs on top."""

from typing import Any

import pytest
from known import DENSE, TENSOR, explained, first, kept, known, spread

from benchrun.capabilities.explain.evidence import Evidence
from benchrun.capabilities.explain.sides import sides_of
from benchrun.capabilities.explain.work import work
from benchrun.judge.difference import difference
from benchrun.rundir.artifacts import Breakdown
from benchrun.rundir.rank_times import RankTimes
from benchrun.runspec.spec import TrainingSpec
from benchrun.runspec.training import Recompute

EXPERTS = "mixtral-8x7b-015fbbe0-20261122T062928Z-b963"


def changed(run: Evidence, layout: dict[str, Any] | None = None, **fields: Any) -> TrainingSpec:
    """The specification of a run with other values."""
    spec = run.spec
    return spec.model_copy(update={"layout": spec.layout.model_copy(update=layout or {}), **fields})


def recomputing(run: Evidence, **values: Any) -> TrainingSpec:
    training = run.spec.training.model_copy(update={"recompute": Recompute(**values)})
    return run.spec.model_copy(update={"training": training})


def test_the_bubble_is_that_of_interleaved_stages() -> None:
    spec = changed(kept(), {"pp": 4, "vp": 2}, num_microbatches=8)
    assert work(spec, None).bubble == pytest.approx(3 / 16)


def test_groups_of_experts_count_with_the_others() -> None:
    for ep in (4, 2):
        assert set(work(changed(kept(EXPERTS), {"ep": ep}), None).bytes_sent) == {"ep", "dp"}
    assert set(work(kept(TENSOR).spec, None).bytes_sent) == {"tp"}


def test_products_of_few_tokens_are_bound_by_memory() -> None:
    assert work(kept().spec, None).products_memory_s == 0
    small = work(changed(kept(), seq_length=64, mbs=1), None)
    assert small.products_memory_s > 2 * small.matmul_s


def test_recomputed_products_are_a_third_pass_forward() -> None:
    logits = work(kept().spec, None).recomputed
    assert logits == 0
    whole = work(recomputing(kept(), granularity="full", method="uniform", num_layers=1), None)
    half = work(recomputing(kept(), granularity="full", method="block", num_layers=16), None)
    assert 0.29 < whole.recomputed < 1 / 3
    assert half.recomputed == pytest.approx(whole.recomputed / 2)
    assert (whole.recomputed_attention, work(kept().spec, None).recomputed_attention) == (1 / 3, 0)
    assert 0.25 < whole.recomputed_memory < 0.45  # forward passes of the layers over all but the repeated one
    assert half.recomputed_memory == pytest.approx(whole.recomputed_memory / 2)
    assert work(kept().spec, None).recomputed_memory == 0


def test_few_micro_batches_cost_a_bubble_also_where_no_kernel_runs() -> None:
    run = kept()
    spec = changed(run, {"pp": 2}, num_microbatches=2)
    profile = run.breakdown.model_copy(update={"communication_s": 0.8, "idle_s": 1.5, "step_s": 6.47})
    made = known(step_s=6.47, spec=spec, breakdown=profile)
    parts = {part.part: part.seconds for part in explained(made).waterfall}
    assert parts["pipeline bubble"] == pytest.approx(0.8)
    assert parts["pipeline bubble, no kernel"] > 1
    cause = next(cause for cause in explained(made).causes if cause.cause == "bubble")
    host = sum(part.seconds for part in explained(made).waterfall if part.cause == "host")
    assert cause.seconds == pytest.approx(0.5 * (2.381 + 1.11 + 0.677 + host), rel=0.02)


@pytest.mark.parametrize(("fused", "times", "named"), [(True, 4.5, False), (True, 8, True), (False, 4.5, True)])
def test_kernels_that_are_not_fused_are_named(fused: bool, times: float, named: bool) -> None:
    run = kept()
    training = run.spec.training.model_copy(update={"fused_kernels": fused})
    least = work(run.spec, run.ceilings).memory_s
    step = run.breakdown.step_s - run.breakdown.other_s + times * least
    profile = run.breakdown.model_copy(update={"other_s": times * least, "step_s": step})
    spec = run.spec.model_copy(update={"training": training})
    causes = explained(known(step_s=step, spec=spec, breakdown=profile)).causes
    assert ("memory_bound" in [cause.cause for cause in causes]) is named


def test_products_that_are_slow_alone_are_too_small() -> None:
    run = kept()
    slow = run.bound.model_copy(update={"matmul_s": 4.5})
    profile = run.breakdown.model_copy(update={"matmul_s": 4.5, "step_s": run.breakdown.step_s + 2.12})
    cause = first(known(step_s=profile.step_s, bound=slow, breakdown=profile))
    assert (cause.cause, cause.kind) == ("matmul", "choice")
    assert "matmul" not in [cause.cause for cause in explained(known()).causes]


@pytest.mark.parametrize("name", [DENSE, TENSOR, EXPERTS])
def test_products_are_not_called_small_where_no_clock_says_how_fast_they_can_be(name: str) -> None:
    causes = explained(known(name, samples=None)).causes
    assert "matmul" not in [cause.cause for cause in causes]


def test_a_step_of_twice_the_batch_may_take_twice_as_long() -> None:
    run = known(step_s=4.0)
    double = known(step_s=8.0, spec=changed(run, gbs=2 * run.spec.gbs))
    found = difference(*sides_of(run, double))
    assert found.ratio == pytest.approx(1)
    assert ("gbs", str(run.spec.gbs), str(2 * run.spec.gbs)) in [(each.name, each.a, each.b) for each in found.differs]


def test_a_run_is_compared_by_what_both_have() -> None:
    bare = known(DENSE, breakdown=None, ceilings=None, bound=None)
    parts = difference(*sides_of(known(), bare)).parts
    assert parts == []


def test_stages_of_unequal_work_are_an_imbalance() -> None:
    ranks = spread({2: 0.6, 3: 0.6})
    divided = tuple(rank.model_copy(update={"stage": rank.rank // 2}) for rank in ranks.ranks)
    causes = {
        cause.cause: cause for cause in explained(known(ranks=ranks.model_copy(update={"ranks": divided}))).causes
    }
    assert (causes["imbalance"].kind, causes["imbalance"].seconds) == ("choice", pytest.approx(0.3))
    assert "slow_rank" not in causes


def test_stages_that_wait_for_the_slowest_one_have_no_bubble_for_it() -> None:
    spec = changed(kept(), {"pp": 2}, num_microbatches=64)
    own = kept().breakdown
    step_s = own.step_s - own.communication_s + 0.7
    profile = own.model_copy(update={"communication_s": 0.7, "step_s": step_s})
    ranks = spread({2: 0.6, 3: 0.6})
    divided = tuple(
        rank.model_copy(update={"stage": rank.rank // 2, "collective_time_s": (1.0,) * 45}) for rank in ranks.ranks
    )

    def of_causes(ranks: RankTimes, profile: Breakdown | None) -> dict[str | None, float]:
        longer = 1.0 if profile else 6.0
        run = known(step_s=longer * step_s, spec=spec, breakdown=profile, ranks=ranks)
        seconds: dict[str | None, float] = {}
        for part in explained(run).waterfall:
            seconds[part.cause] = seconds.get(part.cause, 0.0) + part.seconds
        return seconds

    uneven = ranks.model_copy(update={"ranks": divided})
    with_profile, alone = of_causes(uneven, profile), of_causes(uneven, None)
    assert with_profile["imbalance"] == pytest.approx(0.3)  # the mean over the ranks
    assert alone["imbalance"] == pytest.approx(0.6)  # of the rank that waits most
    even = of_causes(spread({}), profile)
    assert with_profile["bubble"] < even["bubble"]
    assert "imbalance" not in even


def test_ranks_that_are_slow_by_turns_are_an_imbalance() -> None:
    ranks = spread({0: 0.0})
    turns = tuple(
        rank.model_copy(
            update={"compute_time_s": tuple(3.0 + 0.8 * (step % 4 == rank.rank) for step in range(len(ranks.steps)))}
        )
        for rank in ranks.ranks
    )
    of_turns = ranks.model_copy(update={"ranks": turns})
    assert "imbalance" not in [cause.cause for cause in explained(known(ranks=of_turns)).causes], "of equal work"
    causes = {cause.cause: cause for cause in explained(known(ranks=of_turns, same_work=False)).causes}
    assert (causes["imbalance"].kind, causes["imbalance"].seconds) == ("choice", pytest.approx(0.6))
    assert "slow_rank" not in causes
    assert "imbalance" not in [cause.cause for cause in explained(known(ranks=spread({2: 0.5}))).causes]


def test_far_more_than_fused_kernels_take_comes_first_with_all_that_fusing_saves() -> None:
    run = kept()
    least = work(run.spec, run.ceilings).memory_s
    step = run.breakdown.step_s - run.breakdown.other_s + 9 * least
    profile = run.breakdown.model_copy(update={"other_s": 9 * least, "step_s": step})
    cause = explained(known(step_s=step, breakdown=profile)).causes[0]
    assert (cause.cause, cause.kind, cause.seconds) == ("memory_bound", "choice", pytest.approx(6 * least, rel=0.01))


@pytest.mark.parametrize("ceilings", [True, False])
def test_attention_without_a_kernel_of_its_own_is_no_fault_of_the_products(ceilings: bool) -> None:
    """Scores are then computed by plain products, and masks and softmax by kernels that the memory bounds."""
    run = kept()
    least = work(run.spec, run.ceilings)
    plain = {"attention_s": 0.0, "matmul_s": run.breakdown.matmul_s + least.plain_attention_s}
    plain["other_s"] = 9 * least.memory_s
    step = sum(plain.values()) + run.breakdown.communication_s + run.breakdown.idle_s
    profile = run.breakdown.model_copy(update={**plain, "step_s": step})
    bare = {} if ceilings else {"ceilings": None, "bound": None}
    result = explained(known(step_s=step, breakdown=profile, **bare))
    assert result.causes[0].cause == "memory_bound"
    assert not [cause for cause in result.causes if cause.kind == "fault"]
    parts = {part.part: part.seconds for part in result.waterfall}
    assert parts["attention as plain products"] == pytest.approx(least.plain_attention_s, rel=0.5)
