"""GPUs below the speed of others of their type: by their samples, without them by their products."""

from typing import Any

import pytest
from known import TENSOR, explained, first, hosts, kept, known, spread
from test_faults import profile, state
from test_with_a_trace import rank, trace

from benchrun import hardware
from benchrun.capabilities.explain.evidence import Evidence
from benchrun.rundir.fingerprint import ProductRow


def clocks(run: Evidence, **changed: Any) -> dict[tuple[str, str], float]:
    causes = explained(known(samples=state(run, **changed))).causes
    return {(cause.cause, cause.kind): cause.seconds for cause in causes if cause.cause in ("clocks", "power")}


@pytest.mark.parametrize(
    ("gpu", "multiprocessors", "flops"),
    [("H100", 132, 4096), ("H100-PCIe", 114, 4096), ("H200", 132, 4096), ("GH200", 132, 4096), ("A100", 108, 2048)],
)
def test_the_peak_holds_at_the_clock_of_the_table(gpu: str, multiprocessors: int, flops: int) -> None:
    """White papers: multiprocessors, and dense FP16 operations of one in a clock."""
    listed = hardware.gpu(gpu)
    assert listed is not None
    assert multiprocessors * flops * hardware.clock(gpu).peak_clock_mhz / 1e6 == pytest.approx(
        listed.peak_bf16_tflops, rel=0.002
    )


def test_a_few_throttled_samples_cost_as_little_as_they_last() -> None:
    reasons = {"power_cap": 1.0, "hw_thermal": 0.02}
    few = clocks(kept(), reasons=reasons, throttled=0.02)
    assert few.get(("clocks", "fault"), 0.0) < 0.01 * kept().step_s
    many = clocks(kept(), reasons=reasons | {"hw_thermal": 0.8}, throttled=0.8, sm_clock_mhz=1100.0)
    assert many["clocks", "fault"] > 0.1 * kept().step_s


def test_a_lower_power_limit_costs_what_the_square_root_of_the_power_does() -> None:
    run = kept()
    found = first(known(samples=state(run, sm_clock_mhz=1000.0, power_limit_w=400.0, reasons={"power_cap": 1.0})))
    assert (found.cause, found.kind) == ("power", "fault")
    busy = run.breakdown.matmul_s + run.breakdown.attention_s
    assert found.seconds == pytest.approx(busy * (1 - (400 / 700) ** 0.5), rel=0.02)


def test_a_clock_that_no_other_gpu_at_the_same_limit_has_is_a_fault() -> None:
    for mhz, named in ((1245.0, False), (1000.0, True)):
        found = clocks(kept(), sm_clock_mhz=mhz, power_limit_w=None, reasons={"power_cap": 1.0})
        assert (("power", "fault") in found) is named


def test_the_usual_power_limit_is_named_where_nothing_else_costs_as_much() -> None:
    quiet = profile(kept(), communication_s=0.01, idle_s=0.01, step_s=4.2)
    causes = explained(known(step_s=4.2, breakdown=quiet)).causes
    assert [(cause.cause, cause.kind) for cause in causes if cause.seconds > 0.03 * 4.2] == [("power", "choice")]
    exposed = profile(kept(TENSOR), communication_s=0.9, step_s=3.1)
    causes = explained(known(TENSOR, step_s=3.1, breakdown=exposed)).causes
    assert "power" not in [cause.cause for cause in causes]


@pytest.mark.parametrize(("share", "named"), [(0.95, False), (0.7, True)])
def test_without_samples_the_ceilings_show_a_low_clock(share: float, named: bool) -> None:
    """All products are slower alone by the same factor, and the memory is as fast as ever."""
    run = kept()
    gemms = tuple(
        gemm.model_copy(
            update={
                "tflops": {
                    number: {each: rate * share for each, rate in rates.items()}
                    for number, rates in gemm.tflops.items()
                }
            }
        )
        for gemm in run.ceilings.gemms
    )
    slow = profile(run, matmul_s=run.breakdown.matmul_s / share, attention_s=run.breakdown.attention_s / share)
    step = run.step_s + (run.breakdown.matmul_s + run.breakdown.attention_s) * (1 / share - 1)
    bound = run.bound.model_copy(update={"matmul_s": run.bound.matmul_s / share})
    ceilings = run.ceilings.model_copy(update={"gemms": gemms})
    breakdown = slow.model_copy(update={"step_s": step})
    made = known(step_s=step, samples=None, ceilings=ceilings, breakdown=breakdown, bound=bound)
    faults = [cause.cause for cause in explained(made).causes if cause.kind == "fault"]
    assert faults == (["clocks"] if named else [])


@pytest.mark.parametrize(("share", "named"), [(0.62, False), (0.35, True)])
def test_a_trace_alone_shows_a_low_clock_by_its_large_products(share: float, named: bool) -> None:
    large = ProductRow(
        operator="aten::mm",
        dtype="c10::BFloat16",
        batch=1,
        m=8192,
        n=4096,
        k=4096,
        count=10,
        seconds=0.1,
        tflops=989 * share,
        of_peak=share,
    )
    small = large.model_copy(update={"m": 64, "of_peak": 0.1})
    traced = trace(rank(0), rank(1)).model_copy(update={"products": [large, small]})
    bare = {"samples": None, "ceilings": None, "bound": None, "breakdown": None}
    causes = explained(known(step_s=4.28, fingerprint=traced, **bare)).causes
    assert (("clocks", "fault") in [(cause.cause, cause.kind) for cause in causes]) is named


def test_slow_products_at_a_low_clock_are_the_clocks() -> None:
    slow = profile(kept(), matmul_s=4.0, step_s=5.9)
    samples = state(kept(), sm_clock_mhz=1000.0, reasons={}, power_w=400.0)
    assert first(known(step_s=5.9, breakdown=slow, samples=samples)).cause == "clocks"


def test_what_a_slow_rank_loses_is_not_the_hosts() -> None:
    """Rank 1 sleeps for 2 s: its own GPU stands still, and the others wait. The profile has the mean over the ranks."""
    sleeping = profile(kept(), communication_s=0.1 + 1.5, idle_s=0.03 + 0.5, step_s=6.28)
    result = explained(known(step_s=6.28, ranks=spread({1: 2.0}), breakdown=sleeping))
    assert (result.causes[0].cause, result.causes[0].rank) == ("slow_rank", 1)
    assert not [cause for cause in result.causes if cause.cause == "host" and cause.seconds > 0.03 * 6.28]
    lost = sum(part.seconds for part in result.waterfall if part.cause == "slow_rank")
    assert lost == pytest.approx(2.0, rel=0.05)


@pytest.mark.parametrize("bound", [True, False])
def test_a_core_that_others_take_is_the_hosts_fault_on_gpus(bound: bool) -> None:
    waiting = hosts(bound=bound, queued_s=dict.fromkeys(range(4), 1.0))
    idle = profile(kept(), idle_s=1.0, step_s=5.2)
    result = explained(known(step_s=5.2, hosts=waiting, breakdown=idle))
    (part,) = (part for part in result.waterfall if part.part == "waiting for a core")
    assert part.cause == "host"
    assert (result.causes[0].cause, result.causes[0].kind) == ("host", "fault")
