"""What a log states beside its step times: its own rates, losses, rewards, quantities;
windows that others use.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchrun.logs.columns import NO_VALUE
from benchrun.logs.records import CHECKS, Log

from .convention import CONVENTIONS, identify
from .model import SAMPLES, MeanMedian, OtherWindows
from .rows import CompletedRows
from .setting import Setting
from .statistics import Floats, Spread, spread


def reported(
    log: Log, setting: Setting, inside: CompletedRows, rate: float | None
) -> dict[str, Any]:
    """Values that the log itself reports, by field; ``rate``: tokens/s/GPU, by which
    its convention is known.
    """
    tflops = middles(inside.tflops_per_gpu, inside.interval)
    return {
        "tflops_per_gpu_reported": tflops,
        "reported_convention": identify(
            tflops.median,
            rate,
            setting.model,
            setting.seq_length,
            log.printed_conventions or tuple(CONVENTIONS),
        ),
        "mfu_reported": middles(inside.mfu, inside.interval),
    }


def losses(log: Log) -> dict[str, Any]:
    """The first and the last loss; None for one that is not finite."""
    losses = log.distinct.column("loss")
    stated = losses[losses != NO_VALUE]
    ends: dict[str, Any] = dict.fromkeys(("first_loss", "final_loss"))
    if len(stated):
        for name, loss in zip(ends, stated[[0, -1]].tolist(), strict=True):
            if math.isfinite(loss):
                ends[name] = loss
    return ends


def rewards(log: Log) -> dict[str, Any]:
    """Mean reward of the first and the last tenth of the steps; empty without rewards."""
    rewards = []
    for _, reward in sorted(log.quantities.get("reward", {}).items()):
        if math.isfinite(reward):
            rewards.append(reward)
    if not rewards:
        return {}
    tenth = math.ceil(len(rewards) / 10)
    return {
        "first_reward": math.fsum(rewards[:tenth]) / tenth,
        "final_reward": math.fsum(rewards[-tenth:]) / tenth,
    }


def quantities(log: Log, steps: NDArray[np.int64]) -> dict[str, Spread]:
    """The spread of each quantity over these steps."""
    step, samples = log.distinct.columns("step", "samples_per_s")
    rates = dict(zip(step[samples > 0].tolist(), samples[samples > 0].tolist(), strict=True))
    stated = {**log.quantities, SAMPLES: rates}
    inside = {}
    for name, by_step in stated.items():
        if name not in CHECKS:
            inside[name] = [by_step[step] for step in steps.tolist() if step in by_step]
    return {name: spread(each) for name, each in inside.items() if each}


def other_windows(values: CompletedRows) -> OtherWindows:
    """Mean step times, in s, of windows that publications use in place of this one."""
    times, step, count = values.step_time_s, values.step, len(values.step)
    # The mean of several steps may be of others too.
    early = (values.interval == 1) & (step >= 35) & (step <= 44) & (count > 0 and step[-1] >= 44)
    last = (np.arange(count) >= count - 10) & (count >= 10)
    windows = {"last_10_rows": times[last], "steps_35_to_44": times[early]}
    timed = {name: each[~np.isnan(each)] for name, each in windows.items()}
    return OtherWindows(**{name: float(each.mean()) for name, each in timed.items() if len(each)})


def middles(values: Floats, weights: NDArray[Any]) -> MeanMedian:
    """Weighted mean and median of ``values`` without NaN; empty if none is left."""
    usable = ~np.isnan(values)
    if not usable.any():
        return MeanMedian()
    both = spread(values[usable], weights[usable])
    return MeanMedian(mean=both.mean, median=both.median)
