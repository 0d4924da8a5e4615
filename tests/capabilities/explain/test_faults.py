"""Each fault is named where its evidence is, with the seconds that a cure saves, and not without it."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from known import TENSOR, explained, first, hosts, kept, known, late_from, spread

from benchrun.capabilities.explain.evidence import Evidence
from benchrun.capabilities.explain.foreign import without_foreign
from benchrun.measure.telemetry import Sampled
from benchrun.model.parts import Moe
from benchrun.rundir.artifacts import Breakdown


def state(run: Evidence, **changed: Any) -> Sampled:
    """The samples of all GPUs with other values."""
    samples = run.samples
    return samples.model_copy(update={"over_all": samples.over_all.model_copy(update=changed)})


def profile(run: Evidence, **changed: float) -> Breakdown:
    return run.breakdown.model_copy(update=changed)


def test_a_rank_that_computes_longer_is_named_with_its_node() -> None:
    cause = first(known(ranks=spread({2: 0.5})))
    assert (cause.cause, cause.kind, cause.rank, cause.host) == ("slow_rank", "fault", 2, "node1")
    assert cause.seconds == pytest.approx(0.5)


def test_a_rank_that_is_behind_in_some_steps_alone_is_not_blamed() -> None:
    result = explained(known(ranks=spread({2: 0.5}, steps_behind=0.7)))
    assert not [cause for cause in result.causes if cause.rank is not None]


def test_a_rank_within_the_noise_is_not_blamed() -> None:
    noise = np.random.default_rng(3).normal(0.2, 0.25, 45)
    steady = spread({2: 0.2})
    slow = steady.ranks[2].model_copy(update={"compute_time_s": tuple((3.0 + np.maximum(noise, -0.5)).tolist())})
    assert (noise > 0).mean() > 0.75
    ranks = steady.model_copy(update={"ranks": (*steady.ranks[:2], slow, steady.ranks[3])})
    assert first(known(ranks=steady)).rank == 2
    assert not [cause for cause in explained(known(ranks=ranks)).causes if cause.rank is not None]


@pytest.mark.parametrize(("behind", "named"), [(0.3, False), (0.6, True)])
def test_shared_cores_differ(behind: float, named: bool) -> None:
    run = known(ranks=spread({2: behind}), spec=kept().spec.model_copy(update={"gpu": "CPU"}))
    assert ("slow_rank" in [cause.cause for cause in explained(run).causes]) is named


def test_a_loader_that_keeps_up_is_no_cause() -> None:
    spec = kept().spec.model_copy(update={"gpu": "CPU", "num_microbatches": 1})
    for wait, named in ((0.0015, False), (0.004, True)):
        run = known(step_s=0.03, spec=spec, breakdown=None, hosts=hosts(data_s=dict.fromkeys(range(4), wait)))
        assert ("data" in [cause.cause for cause in explained(run).causes]) is named


@pytest.mark.parametrize("bound", [True, False])
def test_cores_that_are_all_busy_are_the_hosts_fault(bound: bool) -> None:
    queued = dict.fromkeys(range(4), 1.0)
    idle = profile(kept(), idle_s=0.4, step_s=4.6)
    cause = first(known(step_s=4.6, hosts=hosts(bound=bound, queued_s=queued), breakdown=idle))
    assert (cause.cause, cause.kind) == ("host", "fault")


@pytest.mark.parametrize(("usual", "named"), [((3.0, 3.01, 3.02), [2]), ((2.8, 3.0, 3.2), [])])
def test_a_rank_that_is_last_in_one_step_is_behind_what_the_others_differ_by(
    usual: tuple[float, ...], named: list[int]
) -> None:
    """Some rank is always the last."""
    ranks = spread({}).model_copy(update={"steps": (6,)})
    own = dict(zip((0, 1, 3), usual, strict=True)) | {2: 3.4}
    times = tuple(rank.model_copy(update={"compute_time_s": (own[rank.rank],)}) for rank in ranks.ranks)
    causes = explained(known(ranks=ranks.model_copy(update={"ranks": times}))).causes
    assert [cause.rank for cause in causes if cause.cause == "slow_rank"] == named


@pytest.mark.parametrize("step", [10, 16, 25, 38])
@pytest.mark.parametrize("behind_s", [0.8, 2.0])
def test_a_rank_that_slows_down_during_the_run_is_named_with_its_first_slow_step(step: int, behind_s: float) -> None:
    cause = first(late_from(step, behind_s))
    assert (cause.cause, cause.rank) == ("slow_rank", 2)
    assert cause.since_step == pytest.approx(step, abs=2)
    assert cause.seconds == pytest.approx(behind_s * (46 - step) / 40, rel=0.1)


@pytest.mark.parametrize("source", ["hosts", "breakdown"])
def test_a_loader_that_slows_down_is_one_cause_with_its_rank_and_first_step(source: str) -> None:
    run = late_from(20, 20.0)
    waits = tuple(20.0 * (step >= 20) for step in range(1, 46))
    by_host = hosts()
    late = by_host.ranks[2].model_copy(update={"data_s": waits})
    by_host = by_host.model_copy(update={"ranks": (*by_host.ranks[:2], late, by_host.ranks[3])})
    profiled = run.breakdown.model_copy(update={"data_of_ranks_s": (0.0, 0.0, 20.0, 0.0)})
    run = without_foreign(replace(run, breakdown=None, hosts=by_host))
    if source == "breakdown":
        run = replace(run, hosts=None, breakdown=profiled)
    faults = [cause for cause in explained(run).causes if cause.kind == "fault"]
    assert [(cause.cause, cause.rank, cause.since_step) for cause in faults] == [("data", 2, 20)]


@pytest.mark.parametrize("seed", range(20))
def test_ranks_that_only_differ_by_noise_are_not_late_from_any_step_on(seed: int) -> None:
    causes = explained(late_from(25, 0.0, noise_s=0.2, seed=seed)).causes
    assert not [cause for cause in causes if cause.since_step is not None]


def test_a_change_outweighs_a_rank_that_is_always_a_little_behind() -> None:
    run = late_from(30, 0.8)
    own = tuple(value + 0.1 for value in run.ranks.ranks[0].compute_time_s)
    first_rank = run.ranks.ranks[0].model_copy(update={"compute_time_s": own})
    ranks = run.ranks.model_copy(update={"ranks": (first_rank, *run.ranks.ranks[1:])})
    cause = first(replace(run, ranks=ranks))
    assert (cause.cause, cause.rank, cause.since_step) == ("slow_rank", 2, 30)


def test_a_rank_with_other_tokens_in_each_step_is_not_slow() -> None:
    """Experts: the router makes a rank's work larger in most steps, and smaller in some."""
    run = late_from(45, 0.0)
    more = np.maximum(np.random.default_rng(5).normal(0.4, 0.4, 45), 0.01)
    own = tuple((np.array(run.ranks.ranks[3].compute_time_s) + more).tolist())
    uneven = run.ranks.ranks[3].model_copy(update={"compute_time_s": own})
    ranks = run.ranks.model_copy(update={"ranks": (*run.ranks.ranks[:3], uneven)})
    for ep, named in ((1, True), (4, False)):
        spec = run.spec.model_copy(update={"layout": run.spec.layout.model_copy(update={"ep": ep})})
        causes = explained(replace(run, ranks=ranks, spec=spec)).causes
        assert ("slow_rank" in [cause.cause for cause in causes]) is named


@pytest.mark.parametrize(("idle", "named"), [(0.2, True), (0.01, False)])
def test_ragged_steps_of_all_ranks_whose_gpus_are_idle_are_the_hosts(idle: float, named: bool) -> None:
    late = np.random.default_rng(2).gamma(4.0, 0.25, 45)
    ranks = spread({})
    own = tuple((3.0 + late).tolist())
    every = tuple(rank.model_copy(update={"compute_time_s": own}) for rank in ranks.ranks)
    samples = state(kept(), utilisation_percent=100 * (1 - idle), samples=400)
    run = known(times=4.28 + late[5:], ranks=ranks.model_copy(update={"ranks": every}), samples=samples)
    run = replace(run, breakdown=None, fingerprint=None, hosts=None)
    faults = [cause.cause for cause in explained(run).causes if cause.kind == "fault"]
    assert ("host" in faults) is named


def test_without_a_profile_the_queue_of_a_gpu_hides_what_its_utilisation_does_not_show() -> None:
    waits = hosts(data_s=dict.fromkeys(range(4), 1.0))
    for used, samples, seconds in ((99.0, 400, 0.0428), (80.0, 400, 0.856), (80.0, 8, 0.0)):
        run = known(
            step_s=4.28, breakdown=None, hosts=waits, samples=state(kept(), utilisation_percent=used, samples=samples)
        )
        parts = {part.part: part.seconds for part in explained(run).waterfall}
        assert parts.get("waiting for data", 0.0) == pytest.approx(seconds)
    on_cpu = known(step_s=4.28, breakdown=None, hosts=waits, spec=kept().spec.model_copy(update={"gpu": "CPU"}))
    assert {part.part: part.seconds for part in explained(on_cpu).waterfall}["waiting for data"] == 1.0


def test_a_node_whose_ranks_are_all_slow_is_named() -> None:
    cause = first(known(ranks=spread({2: 0.5, 3: 0.45}, nodes=2)))
    assert (cause.cause, cause.host) == ("slow_node", "node2")
    cause = first(known(ranks=spread({2: 0.5, 3: 0.01}, nodes=2)))
    assert (cause.cause, cause.rank) == ("slow_rank", 2)


def test_a_slow_rank_has_the_cause_that_its_host_records() -> None:
    late = spread({1: 0.5})
    for field, cause in (("data_s", "data"), ("garbage_s", "host"), ("queued_s", "host")):
        found = first(known(ranks=late, hosts=hosts(bound=True, **{field: {1: 0.45}})))
        assert (found.cause, found.rank, found.seconds) == (cause, 1, pytest.approx(0.5))


def test_a_neighbour_on_the_node_is_no_fault_of_a_rank_that_may_use_all_cores() -> None:
    result = explained(known(ranks=spread({1: 0.5}), hosts=hosts(queued_s={1: 0.49})))
    assert not [cause for cause in result.causes if cause.kind == "fault" and cause.seconds > 0.1]


def test_a_rank_that_loses_its_core_in_nearly_all_steps_is_slow() -> None:
    found = first(known(ranks=spread({1: 2.0}), hosts=hosts(queued_s={1: 1.99})))
    assert (found.cause, found.rank, found.seconds) == ("slow_rank", 1, pytest.approx(2.0))
    assert "waiting for a core" in found.evidence


def test_a_rank_on_a_slow_clock_is_named_by_its_clock() -> None:
    run = kept()
    gpus = [gpu.model_copy(update={"sm_clock_mhz": 1500.0, "host": "node1"}) for gpu in run.samples.gpus]
    gpus[3] = gpus[3].model_copy(update={"sm_clock_mhz": 1200.0})
    samples = run.samples.model_copy(update={"gpus": tuple(gpus)})
    cause = first(known(ranks=spread({3: 0.8}), samples=samples))
    assert (cause.cause, cause.rank) == ("clocks", 3)


@pytest.mark.parametrize("rank", [0, 3])
def test_a_slow_loader_on_all_ranks_is_data(rank: int) -> None:
    waits = dict.fromkeys(range(4), 0.6) | {rank: 0.7}
    idle = profile(kept(), idle_s=0.75, step_s=4.28 + 0.7)
    cause = first(known(step_s=4.98, hosts=hosts(data_s=waits), breakdown=idle))
    assert (cause.cause, cause.kind, cause.seconds) == ("data", "fault", pytest.approx(0.7))


def test_a_wait_for_data_that_the_gpus_hide_costs_nothing() -> None:
    result = explained(known(hosts=hosts(data_s=dict.fromkeys(range(4), 3.0))))
    data = [cause for cause in result.causes if cause.cause == "data"]
    exposed = kept().breakdown.idle_s + kept().breakdown.communication_s
    assert not data or data[0].seconds <= exposed + 0.01


def test_garbage_is_the_hosts() -> None:
    idle = profile(kept(), idle_s=0.5, step_s=4.7)
    cause = first(known(step_s=4.7, hosts=hosts(garbage_s={0: 0.4}), breakdown=idle))
    assert cause.cause == "host"
    assert "garbage" in cause.evidence


@pytest.mark.parametrize("profiled", [True, False])
def test_what_a_rank_does_between_steps_is_the_hosts(profiled: bool) -> None:
    """The profiled step has none of it, and belongs to the run although the measured ones take far longer."""
    own = {} if profiled else {"breakdown": None, "fingerprint": None}
    cause = first(known(step_s=18.0, hosts=hosts(between_s={2: 13.7}), **own))
    assert (cause.cause, cause.kind, cause.seconds) == ("host", "fault", pytest.approx(13.7, abs=0.05))
    assert "rank 2 is between two steps for 13.7 s" in cause.evidence
    run = known(step_s=18.0, hosts=hosts(between_s={2: 13.7}))
    assert without_foreign(run).breakdown is run.breakdown is not None
    assert without_foreign(known(step_s=18.0, hosts=hosts())).breakdown is None


def test_ranks_bound_to_too_few_cores_are_the_hosts() -> None:
    queued = dict.fromkeys(range(4), 1.0)
    idle = profile(kept(), idle_s=1.2, step_s=5.4)
    assert first(known(step_s=5.4, hosts=hosts(bound=True, queued_s=queued), breakdown=idle)).cause == "host"


def test_a_gpu_that_stands_still_has_a_slow_host() -> None:
    cause = first(known(step_s=5.4, breakdown=profile(kept(), idle_s=1.2, step_s=5.4)))
    assert (cause.cause, cause.kind) == ("host", "fault")
    assert cause.seconds == pytest.approx(1.2, rel=0.05)


@pytest.mark.parametrize("seq_length", [256, 2048])
def test_a_host_that_is_late_with_many_small_kernels_is_the_recipes_choice(seq_length: int) -> None:
    run = kept()
    spec = run.spec.model_copy(update={"seq_length": seq_length})
    causes = explained(known(step_s=5.4, spec=spec, breakdown=profile(run, idle_s=1.2, step_s=5.4))).causes
    assert [cause.kind for cause in causes if cause.cause == "host"] == ["choice"]


@pytest.mark.parametrize(
    ("experts", "balance", "kind"), [(2, "aux_loss", "fault"), (2, "sinkhorn", "choice"), (128, "aux_loss", "choice")]
)
def test_many_experts_and_sinkhorns_algorithm_keep_a_healthy_host_busy(experts: int, balance: str, kind: str) -> None:
    run = kept()
    moe = Moe(num_experts=experts, topk=1, ffn_hidden_size=run.spec.model.ffn_hidden_size, balance=balance)
    spec = run.spec.model_copy(update={"model": run.spec.model.model_copy(update={"moe": moe})})
    causes = explained(known(step_s=5.4, spec=spec, breakdown=profile(run, idle_s=1.2, step_s=5.4))).causes
    assert [cause.kind for cause in causes if cause.cause == "host"] == [kind]


def test_slow_links_are_named_by_the_ceilings() -> None:
    run = kept(TENSOR)
    slow = tuple(each.model_copy(update={"bus_gb_per_s": 20.0}) for each in run.ceilings.collectives)
    ceilings = run.ceilings.model_copy(update={"collectives": slow})
    exposed = profile(run, communication_s=2.0, step_s=4.2)
    cause = first(known(TENSOR, step_s=4.2, ceilings=ceilings, breakdown=exposed, env={"NCCL_P2P_DISABLE": "1"}))
    assert (cause.cause, cause.kind) == ("comm_bandwidth", "fault")
    assert "NCCL_P2P_DISABLE=1" in cause.evidence
    assert 1.5 < cause.seconds < 2.0


def test_slow_links_are_named_by_a_profiled_step_alone() -> None:
    exposed = profile(kept(TENSOR), communication_s=8.0, step_s=10.2)
    assert first(known(TENSOR, step_s=10.2, ceilings=None, bound=None, breakdown=exposed)).cause == "comm_bandwidth"


def test_exposed_communication_on_healthy_links_is_a_choice() -> None:
    exposed = profile(kept(TENSOR), communication_s=0.9, step_s=3.1)
    cause = first(known(TENSOR, step_s=3.1, breakdown=exposed))
    assert (cause.cause, cause.kind, cause.seconds) == ("exposed_tp", "choice", pytest.approx(0.9, rel=0.02))


@pytest.mark.parametrize(
    ("changed", "cause"),
    [
        ({"sm_clock_mhz": 1000.0, "reasons": {}, "power_w": 400.0}, "clocks"),
        ({"sm_clock_mhz": 1200.0, "reasons": {"sw_thermal": 0.9}, "throttled": 0.9}, "clocks"),
        ({"sm_clock_mhz": 1100.0, "reasons": {"power_cap": 1.0}, "power_limit_w": 350.0}, "power"),
    ],
)
def test_gpus_that_are_held_back_are_named(changed: dict[str, Any], cause: str) -> None:
    found = first(known(samples=state(kept(), **changed)))
    assert (found.cause, found.kind) == (cause, "fault")


def test_an_idle_gpu_lowers_its_clock_itself() -> None:
    changed = {"sm_clock_mhz": 345.0, "reasons": {"idle": 1.0}, "utilisation_percent": 10.0}
    causes = explained(known(samples=state(kept(), **changed))).causes
    assert "clocks" not in [cause.cause for cause in causes]


def test_products_below_their_ceilings_are_named() -> None:
    slow = profile(kept(), matmul_s=4.0, step_s=5.9)
    cause = first(known(step_s=5.9, breakdown=slow))
    assert (cause.cause, cause.kind) == ("matmul", "fault")
    assert cause.seconds == pytest.approx(4.0 - kept().bound.matmul_s, rel=0.01)


def test_without_anything_but_the_log_nothing_is_guessed() -> None:
    bare = known(samples=None, ceilings=None, bound=None, breakdown=None, ranks=None, hosts=None)
    result = explained(replace(bare, fingerprint=None))
    assert not [cause for cause in result.causes if cause.kind == "fault"]
    assert len(result.missing) >= 4


@pytest.mark.parametrize(("behind", "gpu", "named"), [(1.0, "H200", True), (0.3, "H200", False), (1.0, "CPU", False)])
def test_a_rank_that_waits_for_nobody_in_the_profiled_step_is_slow(behind: float, gpu: str, named: bool) -> None:
    run = kept()
    waited = (behind + 0.1, behind + 0.12, 0.1, behind + 0.11)
    mean = sum(waited) / 4
    step = run.breakdown.step_s - run.breakdown.communication_s + mean
    made = run.breakdown.model_copy(
        update={"communication_s": mean, "step_s": step, "communication_of_ranks_s": waited}
    )
    spec = run.spec.model_copy(update={"gpu": gpu})
    causes = explained(known(step_s=step, spec=spec, ranks=None, breakdown=made)).causes
    found = [(cause.cause, cause.rank) for cause in causes if cause.kind == "fault"]
    assert (("slow_rank", 2) in found) is named
