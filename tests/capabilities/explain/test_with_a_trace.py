"""What a trace of the run adds: kernels without a breakdown, causes of idle time, the rank that the others wait for."""

from dataclasses import replace
from typing import Any

import pytest
from known import TENSOR, explained, first, kept, known
from test_faults import profile

from benchrun.capabilities.explain.buckets import buckets
from benchrun.rundir.fingerprint import Classes, CollectiveTime, Fingerprint, IdleByCause, RankShares, StragglerTime


def rank(number: int, *, compute: float = 0.9, exposed: float = 0.05, **causes: float) -> RankShares:
    """Shares of a rank; the named causes of idle time, the rest of it synchronising."""
    idle = 1 - compute - exposed
    named = {"host": 0.0, "launch_gap": 0.0, "data": 0.0, **causes}
    return RankShares(
        rank=number,
        device=number,
        host="node1",
        gpu="NVIDIA H200",
        file=f"rank{number}.json",
        window_s=8.56,
        compute=compute,
        exposed_comm=exposed,
        hidden_comm=0.0,
        copy=0.0,
        idle=idle,
        idle_by_cause=IdleByCause(**named, sync=idle - sum(named.values())),
        classes=Classes(matmul=0.5, attention=0.2, memory_bound=0.2, communication=exposed),
    )


def trace(*ranks: RankShares, step_s: float = 4.28, slow: dict[int, float] | None = None, **more: Any) -> Fingerprint:
    """Two steps of ``step_s``; ``slow``: rank and seconds of both steps."""
    return Fingerprint(
        window="steps",
        window_s=2 * step_s,
        steps=2,
        ranks=list(ranks),
        collectives=more.get("collectives", []),
        stragglers=[StragglerTime(rank=each, host="node1", behind_s=value) for each, value in (slow or {}).items()],
        unknown_share=0.0,
        unknown_kernels=[],
        ranges=[],
        products=[],
        notes=[],
    )


def test_kernels_come_from_the_trace_where_no_step_was_profiled() -> None:
    run = known(breakdown=None, step_s=4.28, fingerprint=trace(rank(0), rank(1)))
    assert buckets(run).matmul == pytest.approx(0.5 * 4.28)
    assert buckets(run).communication == pytest.approx(0.05 * 4.28)
    assert not [part for part in explained(run).waterfall if part.part.startswith("not separated")]


def test_what_the_profiler_costs_the_host_is_not_the_runs() -> None:
    """The trace's steps take 5.28 s, the measured ones 4.28 s: the second is the profiler's."""
    traced = trace(rank(0, compute=0.75, exposed=0.03, host=0.22), step_s=5.28)
    divided = buckets(known(breakdown=None, step_s=4.28, fingerprint=traced))
    assert divided.idle == pytest.approx(0.22 * 5.28 - 1)
    assert divided.matmul == pytest.approx(0.5 * 5.28)


@pytest.mark.parametrize(("name", "cause"), [("data", "data"), ("host", "host"), ("launch_gap", "host")])
def test_idle_time_has_the_cause_of_the_trace(name: str, cause: str) -> None:
    ranks = [rank(number, compute=0.6, **{name: 0.3}) for number in range(4)]
    found = first(known(breakdown=None, hosts=None, step_s=6.0, fingerprint=trace(*ranks, step_s=6.0)))
    assert (found.cause, found.kind) == (cause, "fault")
    assert found.seconds == pytest.approx(0.3 * 6.0, rel=0.2)


def test_the_rank_that_never_waits_is_named_without_its_own_times() -> None:
    found = first(known(breakdown=None, ranks=None, fingerprint=trace(rank(0), rank(1), slow={1: 1.0})))
    assert (found.cause, found.rank, found.seconds) == ("slow_rank", 1, pytest.approx(0.5))


@pytest.mark.parametrize("name", ["data", "host"])
def test_a_slow_rank_whose_gpu_is_idle_has_a_slow_loader_or_host(name: str) -> None:
    ranks = rank(0), rank(1, compute=0.7, **{name: 0.2})
    found = first(known(breakdown=None, ranks=None, hosts=None, fingerprint=trace(*ranks, slow={1: 1.4})))
    assert (found.cause, found.rank) == (name, 1)


@pytest.mark.parametrize(
    ("rate", "size", "named"), [(20.0, 1 << 30, True), (320.0, 1 << 30, False), (20.0, 1 << 16, False)]
)
def test_slow_transfers_of_large_messages_are_slow_links(rate: float, size: int, named: bool) -> None:
    collective = CollectiveTime(
        name="all_reduce",
        group="tp",
        ranks=[0, 1, 2, 3],
        count=10,
        bytes=10 * size,
        duration_s=1.0,
        transfer_s=0.9,
        waiting_s=0.1,
        busbw_gb_s=rate,
    )
    ranks = [rank(number, compute=0.7, exposed=0.25) for number in range(4)]
    run = known(TENSOR, breakdown=None, step_s=4.28, fingerprint=trace(*ranks, collectives=[collective]))
    assert (first(run).cause == "comm_bandwidth") is named


def test_a_profiled_step_wins_over_a_trace_which_slows_the_host_more() -> None:
    run, alone = known(fingerprint=trace(rank(0, compute=0.6, host=0.3))), buckets(kept())
    assert 0 <= buckets(run).idle - alone.idle <= alone.other < 0.001 * run.step_s
    assert buckets(run).matmul == alone.matmul


def test_a_trace_shows_what_takes_longer_in_the_measured_steps_than_in_the_profiled_one() -> None:
    profiled = kept().breakdown
    traced = trace(rank(0, compute=0.85, host=0.1), rank(1, compute=0.85, host=0.1))
    run = known(step_s=profiled.step_s + 0.2, fingerprint=traced)
    assert buckets(replace(run, fingerprint=None)).other == pytest.approx(0.2)
    assert buckets(run).other == pytest.approx(0)
    assert buckets(run).idle > profiled.idle_s + 0.1


@pytest.mark.parametrize("profiled", [True, False])
def test_copies_of_offloaded_activations_are_no_unfused_kernels(profiled: bool) -> None:
    spec = kept().spec
    spec = spec.model_copy(update={"training": spec.training.model_copy(update={"offload_activations": True})})
    copying = rank(0, compute=0.45, exposed=0.5).model_copy(update={"exposed_comm": 0.0, "copies": 0.5})
    step_s = kept().breakdown.step_s
    known_of_a_step = profile(kept(), matmul_s=0.2 * step_s, attention_s=0.05 * step_s, other_s=0.7 * step_s)
    known_of_a_step = known_of_a_step.model_copy(update={"communication_s": 0.0, "idle_s": 0.05 * step_s})
    breakdown = known_of_a_step if profiled else None
    run = known(spec=spec, breakdown=breakdown, fingerprint=trace(copying, step_s=step_s), step_s=step_s)
    found = explained(run)
    copies = {part.part: part.seconds for part in found.waterfall}["copies"]
    assert copies == pytest.approx(0.5 * step_s, rel=0.01)
    (cause,) = (cause for cause in found.causes if cause.cause == "memory_bound")
    assert cause.kind == "choice"
    assert cause.seconds >= copies - 1e-6
    assert "offload_activations" in cause.advice


def test_on_a_cpu_the_profiler_slows_all_kinds_of_work() -> None:
    run = known(step_s=kept().breakdown.step_s / 2, spec=kept().spec.model_copy(update={"gpu": "CPU"}))
    divided = buckets(run)
    assert divided.communication == pytest.approx(kept().breakdown.communication_s / 2, rel=1e-4)
    assert divided.memory_bound == pytest.approx(kept().breakdown.other_s / 2, rel=1e-4)
