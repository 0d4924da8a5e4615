"""Faults: other ranks or steps of the run, the ceilings or the hardware table show that
the same work can be faster.
"""

from collections.abc import Iterator

import numpy as np

from benchrun.capabilities.explain import waits
from benchrun.capabilities.explain.advice import fault
from benchrun.capabilities.explain.buckets import Buckets
from benchrun.capabilities.explain.evidence import Evidence
from benchrun.capabilities.explain.links import slow_links
from benchrun.capabilities.explain.model import FAULT_SHARE, Cause, Name, Part
from benchrun.capabilities.explain.pauses import slow_steps
from benchrun.capabilities.explain.rise import risen
from benchrun.capabilities.explain.said import said
from benchrun.capabilities.explain.speed import held_back
from benchrun.capabilities.explain.waterfall import MATMUL_IN_TRAINING
from benchrun.capabilities.explain.what_changed import growing, of_rise
from benchrun.rundir.artifacts import BREAKDOWN, CEILINGS, HOST, TELEMETRY_SUMMARY

MIN_WAIT_S = 0.002
"""Wait for the data of a micro-batch that is a fault.

Loaders that keep up take 0.1 to 3.8 ms in kept runs, which the GPU hides.
"""
IDLE_SHARE = 0.1
"""Share of a profiled step without a kernel from which the host is too slow.

Kept runs are below 8 %.
"""
LAYER_S = 0.0025
"""Seconds of matrix products per layer and expert, at the peak, below which launch
overhead is normal and no fault. A healthy host took 10 ms for a layer of 2.2 ms.
"""
HALF, MOST = 0.5, 0.8
OF_A_RANK: tuple[Name, ...] = ("data", "host", "jitter", "slow_rank")
"""Causes of one rank: the only one, if there is no other."""
SLOWER_GPU = ("slow_rank", "clocks")
"""Causes that make every kernel of a GPU slower."""


def faults(run: Evidence, parts: list[Part], divided: Buckets | None) -> Iterator[Cause]:
    """Every fault, also small ones, with the seconds of a step that a cure would save."""
    found = list(_of_all_steps(run, parts, divided))
    since = next((cause.since_step for cause in found if cause.since_step), None)
    rose = risen(run) if since is None else None
    explained = run.steps >= (np.inf if since is None else since)
    if rose is not None:
        explained = rose.covers(run.steps)
        found = _with_rise(found, of_rise(run, rose), rose.seconds)
    elif since is None and (grows := growing(run)):
        found.append(grows)
    for cause in (*found, *slow_steps(run, explained)):
        if cause.cause in OF_A_RANK and run.spec.num_gpus == 1 and cause.rank is None:
            cause = cause.model_copy(update={"rank": 0})
        yield cause


def _with_rise(found: list[Cause], of_steps: Cause, seconds: float) -> list[Cause]:
    """The causes with that of a rise: one of the same name sets in with it; one that
    costs as much explains it.
    """
    for number, cause in enumerate(found):
        same = of_steps.rank in (None, cause.rank) or cause.rank is None
        if cause.cause == of_steps.cause and same:
            words = f"{cause.evidence}; {of_steps.evidence}"
            rank = of_steps.rank if cause.rank is None else cause.rank
            update = {"since_step": of_steps.since_step, "evidence": words, "rank": rank}
            return [*found[:number], cause.model_copy(update=update), *found[number + 1 :]]
    if of_steps.cause in SLOWER_GPU:
        # Its products are slower than alone as all of its kernels are.
        found = [cause for cause in found if cause.cause != "matmul"]
    if all(cause.seconds < HALF * seconds for cause in found):
        return [*found, of_steps]
    return found


def _of_all_steps(run: Evidence, parts: list[Part], divided: Buckets | None) -> Iterator[Cause]:
    late = waits.late_rank(run)
    of_one = _of_late(run, late) if late else None
    if of_one is not None:
        yield of_one
    # If one rank alone waits for data, the others wait for it.
    if of_one is None or of_one.cause != "data":
        yield from _of_data(run, divided)
    yield from _of_host(run, parts, divided)
    yield from said(run, late is not None)
    yield from slow_links(run, divided)
    slower = list(held_back(run, parts))
    yield from slower
    yield from _of_products(run, parts, sum(cause.seconds for cause in slower))


def _of_late(run: Evidence, late: waits.Late) -> Cause:
    """A rank that is behind: by its data, its host, its clock, its node; else it is
    just slow.
    """
    name, why = _reason(run, late)
    evidence = f"{late.evidence}; {why}" if why else late.evidence
    cause = fault(name, late.seconds, evidence, late.rank, late.host, late.saving)
    return cause.model_copy(update={"since_step": late.since_step})


def _reason(run: Evidence, late: waits.Late) -> tuple[Name, str | None]:
    for name, field, words in waits.DELAYS:
        by_rank = run.mean_host_s(field) if field == "garbage_s" else run.host_s(field)
        more = waits.beyond_others(by_rank, late.rank)
        if more > HALF * late.seconds:
            # A core that other processes take from a rank which may use all of them is
            # not a matter of its binding.
            of_node = field == "queued_s" and not waits.bound(run, late.rank)
            why = f"it {words} {more:.3g} s longer than they do ({HOST})"
            return "slow_rank" if of_node else name, why
    waited = dict(enumerate(run.breakdown.data_of_ranks_s if run.breakdown else ()))
    if waits.beyond_others(waited, late.rank) > HALF * late.seconds:
        return "data", f"it {waits.DELAYS[0][2]} longer than they do ({BREAKDOWN}, one step)"
    if idle := _idle_of(run, late):
        return idle, "its GPU is idle meanwhile"
    if slower := _slower_clock(run, late):
        return "clocks", slower
    peers = _slow_node(run, late)
    return "slow_node" if peers else "slow_rank", peers


def _idle_of(run: Evidence, late: waits.Late) -> Name | None:
    """``data`` or ``host`` if the trace shows that the late rank's GPU is idle longer
    for it than the others'.
    """
    if run.fingerprint is None:
        return None
    names: tuple[Name, ...] = ("data", "host")
    for name in names:
        by_rank: dict[int, float] = {}
        for rank in run.fingerprint.ranks:
            if causes := rank.idle_by_cause:
                by_rank[rank.rank] = (
                    causes.data if name == "data" else causes.host + causes.launch_gap
                )
        if waits.beyond_others(by_rank, late.rank) * run.typical_s > HALF * late.seconds:
            return name
    return None


def _slower_clock(run: Evidence, late: waits.Late) -> str | None:
    """Words on a GPU whose clock is lower than the others' by about as much as its rank
    is behind.
    """
    gpus = [gpu for gpu in run.samples.gpus if gpu.sm_clock_mhz] if run.samples else []
    per_node = run.spec.cluster.gpus_per_node
    own = [gpu for gpu in gpus if gpu.host == late.host and gpu.gpu == late.rank % per_node]
    others = [gpu.sm_clock_mhz or 0.0 for gpu in gpus if gpu not in own]
    if not own or not others or not own[0].sm_clock_mhz:
        return None
    lost = 1 - own[0].sm_clock_mhz / float(np.median(others))
    if lost * run.typical_s < MOST * late.seconds:
        # More work takes more power, and lowers the clock a little too.
        return None
    words = f"its clock is {own[0].sm_clock_mhz:.0f} MHz, the others' {np.median(others):.0f} ({TELEMETRY_SUMMARY})"
    if own[0].temperature_c:
        words += f", {own[0].temperature_c:.0f} C"
    return words


def _slow_node(run: Evidence, late: waits.Late) -> str | None:
    """Words on a node whose ranks are all slower than those of the other nodes."""
    own: list[float] = []
    others: list[float] = []
    for rank in run.ranks.ranks if run.ranks else ():
        seconds = float(np.median(rank.compute_time_s))
        (own if rank.host == late.host else others).append(seconds)
    if len(own) < 2 or not others or min(own) - max(others) < HALF * late.seconds:
        return None
    return f"every rank of {late.host} is slower than all of the other nodes"


def _of_data(run: Evidence, divided: Buckets | None) -> Iterator[Cause]:
    wait = waits.data_wait(run)
    if wait is None or wait.seconds < MIN_WAIT_S * run.spec.num_microbatches:
        return
    yield _of_wait("data", wait.at_most(_idle_s(run, divided)))


def _of_wait(name: Name, wait: waits.Wait) -> Cause:
    return fault(name, wait.seconds, wait.evidence, saving=wait.saving)


def _idle_s(run: Evidence, divided: Buckets | None) -> float:
    """The most that a step loses while no kernel runs. On a CPU what a host does takes
    the step's own time.

    A rank without data keeps the others in their collectives, so that these count too.
    """
    if not run.on_gpu:
        return run.typical_s
    if divided is not None:
        return divided.idle + divided.communication + divided.other
    return run.typical_s if run.idle_of_telemetry_s is None else run.idle_of_telemetry_s


def _of_host(run: Evidence, parts: list[Part], divided: Buckets | None) -> Iterator[Cause]:
    idle = _idle_s(run, divided)
    if (wait := waits.garbage(run)) and wait.seconds > 0:
        yield _of_wait("host", wait.at_most(idle))
    if (wait := waits.between_steps(run)) and wait.seconds > IDLE_SHARE * run.typical_s:
        yield _of_wait("host", wait)
    if (
        (run.on_gpu or waits.bound(run))
        and (wait := waits.queue(run))
        and wait.seconds > FAULT_SHARE * run.typical_s
    ):
        yield _of_wait("host", wait.at_most(idle))
    if run.on_gpu:
        yield from _of_idle_gpus(run, parts, divided)


def _of_idle_gpus(run: Evidence, parts: list[Part], divided: Buckets | None) -> Iterator[Cause]:
    """GPUs without a kernel although the kernels are large, in the profiled step or in
    ragged steps of all ranks.
    """
    unused = [part for part in parts if part.cause == "host"]
    seconds = sum(part.seconds for part in unused)
    if divided is not None and seconds > IDLE_SHARE * run.typical_s and not _of_small_kernels(run):
        share = 100 * seconds / run.step_s
        largest = max(unused, key=lambda part: part.seconds)
        evidence = f"the GPUs have no kernel in {share:.0f} % of the step; {largest.part} ({largest.evidence})"
        yield fault("host", seconds, evidence)
    elif (
        (wait := waits.ragged(run))
        and wait.seconds > FAULT_SHARE * run.typical_s
        and not _of_small_kernels(run)
    ):
        yield _of_wait("host", wait)


def _of_small_kernels(run: Evidence) -> bool:
    """Whether the recipe launches many small kernels, between which even a healthy host
    keeps a GPU waiting.

    A layer of experts launches kernels for each that a rank has, and Sinkhorn's
    algorithm asks the GPU after each round whether it has converged.
    """
    spec, experts = run.spec, run.spec.model.moe
    if experts and experts.balance == "sinkhorn":
        return True
    if (
        spec.task == "lora"
    ):  # adapters: kept runs of healthy nodes have no kernel in 7 to 34 % of the step
        return True
    least = run.least.matmul_s
    if least is None:
        return False
    products = max(spec.model.num_layers // spec.layout.pp, 1)
    if experts:
        products *= max(experts.num_experts // spec.layout.ep, 1)
    return least < LAYER_S * products * spec.num_microbatches


def _of_products(run: Evidence, parts: list[Part], slower_s: float) -> Iterator[Cause]:
    """Products that are slower in training than alone, beyond the ``slower_s`` for
    which the clock is to blame.

    None if the host is late: after each gap the caches are cold, which is a consequence
    and no cause.
    """
    if sum(part.seconds for part in parts if part.cause == "host") > IDLE_SHARE * run.typical_s:
        return
    for part in parts:
        if part.part == MATMUL_IN_TRAINING and run.on_gpu and part.seconds > slower_s:
            evidence = f"the same products alone, on all ranks at once, took {part.seconds:.3g} s less ({CEILINGS})"
            yield fault("matmul", part.seconds - slower_s, evidence)
