"""What is known about a run, made for a test from a kept one."""

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from benchrun import api, paths
from benchrun.capabilities.explain.evidence import Evidence
from benchrun.capabilities.explain.explanation import explain
from benchrun.capabilities.explain.model import Cause, Explanation
from benchrun.capabilities.explain.waterfall import waterfall
from benchrun.rundir.rank_times import HostTime, HostTimes, RankTime, RankTimes

DENSE = "llama3.1-8b-e65e456c-20261122T061909Z-6880"
"""Llama 3.1 8B on four H200, data-parallel; a step of 4.28 s."""
TENSOR = "llama3.1-70b-2cad564f-20261122T064723Z-ace2"
"""Llama 3.1 70B with 20 layers, tp 4; a step of 2.51 s."""


@cache
def kept(name: str = DENSE) -> Evidence:
    """All that a kept run holds."""
    return api.evidence(api.open_run(str(paths.MEASURED / name)))


def known(name: str = DENSE, *, steps: int = 40, step_s: float | None = None, **changed: Any) -> Evidence:
    """The same with ``steps`` equal steps and other fields."""
    run = kept(name)
    times = np.full(steps, step_s or run.typical_s)
    fields = {"earlier": np.empty(0), "earlier_steps": np.empty(0), "times": times, **changed}
    return replace(run, steps=np.arange(6, 6 + steps), **fields)


def hosts(ranks: int = 4, *, bound: bool = False, steps: int = 45, **seconds: dict[int, float]) -> HostTimes:
    """host.json with the given seconds of each step, by rank; 0 for the others. ``data_s={1: 0.5}``."""
    names = ("data_s", "garbage_s", "queued_s", "between_s")
    return HostTimes(
        first_step=1,
        ranks=tuple(
            HostTime(
                rank=rank,
                host="node1",
                cores="0-3",
                bound=bound,
                **{name: (seconds.get(name, {}).get(rank, 0.0),) * steps for name in names},
            )
            for rank in range(ranks)
        ),
    )


def spread(behind: dict[int, float], *, usual: float = 3.0, steps_behind: float = 1.0, nodes: int = 1) -> RankTimes:
    """Compute times of four ranks, of which some are behind in a share of the steps."""
    late = np.arange(45) % 10 < round(10 * steps_behind)
    return RankTimes(
        steps=tuple(range(1, 46)),
        ranks=tuple(
            RankTime(
                rank=rank,
                host=f"node{rank * nodes // 4 + 1}",
                compute_time_s=tuple((usual + behind.get(rank, 0.0) * late).tolist()),
                collective_time_s=(0.4,) * 45,
            )
            for rank in range(4)
        ),
    )


def late_from(step: int, behind_s: float, *, noise_s: float = 0.02, seed: int = 0) -> Evidence:
    """A run of 45 steps whose rank 2 computes ``behind_s`` longer from ``step`` on; the others wait for it."""
    noise = np.random.default_rng(seed).normal(0.0, noise_s, (4, 45))
    steady = spread({})
    ranks = []
    for number, rank in enumerate(steady.ranks):
        own = np.array(rank.compute_time_s) + noise[number]
        if number == 2:
            own[step - 1 :] += behind_s
        ranks.append(rank.model_copy(update={"compute_time_s": tuple(own.tolist())}))
    run = known(ranks=steady.model_copy(update={"ranks": tuple(ranks)}))
    times = run.times + np.where(run.steps >= step, behind_s, 0.0)
    return replace(run, times=times)


LACKING = "unknown"
"""The part of a measured step that the profiled one does not have."""


def apart(run: Evidence) -> dict[str, float]:
    """By cause, how far the waterfall of the profiled step alone and that of the trace alone are apart: points.

    Points are hundredths of the step. `LACKING` is not compared but given as it is: `explain` fills it from the trace.
    """
    sums: list[dict[str, float]] = [{}, {}]
    for one, each in zip(sums, (replace(run, fingerprint=None), replace(run, breakdown=None)), strict=True):
        for part in waterfall(each):
            name = part.cause or part.part
            one[name] = one.get(name, 0.0) + 100 * part.seconds / run.step_s
    return {name: abs(sums[0].get(name, 0.0) - sums[1].get(name, 0.0)) for name in dict.fromkeys([*sums[0], *sums[1]])}


def explained(run: Evidence) -> Explanation:
    """The explanation, whose parts add up."""
    result = explain(run)
    assert abs(sum(part.seconds for part in result.waterfall) - run.step_s) < 1e-4 * run.step_s
    return result


def first(run: Evidence) -> Cause:
    """The first cause."""
    return explained(run).causes[0]
