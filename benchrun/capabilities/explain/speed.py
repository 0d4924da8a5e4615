"""Whether the GPUs are as fast as others of their type: clocks, power, and without
samples the rate of products.
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

from benchrun import hardware
from benchrun.measure.telemetry import Telemetry
from benchrun.rundir.artifacts import CEILINGS

from .advice import choice, fault
from .evidence import Evidence
from .model import Cause, Part

HALF = 0.5
"""Share of the samples."""
LOW_CLOCK = 0.9
"""Share of the clock that others reach."""
LOW_POWER = 0.95
"""Share of the nominal limit."""
LARGE = 2048
"""Least dimension of a product that fills a GPU."""
ALONE, SLOW_ALONE = 0.7, 0.6
"""Share of the peak that the fastest BF16 product reaches alone (0.69 to 0.76 in all
kept runs), and the share that shows a fault.
"""
SLOW_IN_TRAINING = 0.45
"""Share of the peak that shows a fault in a trace: beside other work a product is
slower.

The visible H100 trace has 0.60 to 0.69.
"""
USUAL = "nothing to mend: healthy GPUs of this type run so under full load"
"""Advice if the clock is the usual one."""


def held_back(run: Evidence, parts: list[Part]) -> Iterator[Cause]:
    """Find at most one fault, ``clocks`` or ``power``: GPUs below the speed of others
    of their type, all ranks alike.
    """
    state = None
    if run.samples:
        state = run.samples.over_all
    clock = run.clock
    computing = sum(part.seconds for part in parts if at_clock(part))
    if state is not None and clock is not None and run.clock_mhz:
        yield from _of_samples(state, run.clock_mhz, clock, computing)
    else:
        yield from _of_products(run, computing)


def at_clock(part: Part) -> bool:
    """Whether the time of a part falls with the clock."""
    return "matmul" in part.part or "attention" in part.part or part.cause in ("clocks", "power")


def _of_samples(
    state: Telemetry, mhz: float, clock: hardware.Clock, computing: float
) -> Iterator[Cause]:
    """Find a fault in the samples: heat or supply, a limit of the clock or of the
    power, a low clock at the usual power.
    """
    lost = computing * _slower(mhz, clock.peak_clock_mhz)
    at = f"{mhz:.0f} MHz, the peak holds at {clock}"
    capped = state.reasons.get("power_cap", 0.0)
    limit = state.power_limit_w
    if state.fault:
        yield fault("clocks", lost * state.throttled, f"{state.fault}; {at}")
    elif capped < HALF and mhz < LOW_CLOCK * clock.peak_clock_mhz:
        why = "a limit of the clock is set"
        yield fault(
            "clocks",
            lost,
            f"{at}, and the power is at its limit in {100 * capped:.0f} % of the samples: {why}",
        )
    elif capped >= HALF and limit and clock.power_w and limit < LOW_POWER * clock.power_w:
        # Power grows with the clock and the square of the voltage, which grows with the
        # clock: at least by its square.
        saved = min(lost, computing * (1 - math.sqrt(limit / clock.power_w)))
        yield fault(
            "power",
            saved,
            f"the power limit is {limit:.0f} W, the data sheet has {clock.power_w:.0f}; {at}",
        )
    elif capped >= HALF and clock.capped_clock_mhz and mhz < LOW_CLOCK * clock.capped_clock_mhz:
        usual = f"at the usual power limit other GPUs of this type ran at {clock.capped_clock_mhz:.0f} MHz and above"
        yield fault(
            "power", computing * _slower(mhz, clock.capped_clock_mhz), f"{mhz:.0f} MHz; {usual}"
        )


def _slower(mhz: float, usual_mhz: float) -> float:
    """Share of the time at ``mhz`` that the usual clock would save."""
    return 1 - min(mhz / usual_mhz, 1.0)


class _Rate(NamedTuple):
    """The fastest large product."""

    of_peak: float
    slow: float
    """Share of the peak below which it is a fault."""
    evidence: str


def _of_products(run: Evidence, computing: float) -> Iterator[Cause]:
    """Find a fault without a clock: even the fastest large BF16 product is far below
    what GPUs of any type reach.
    """
    for rate in (_alone(run), _in_trace(run)):
        if rate is not None and rate.of_peak < rate.slow:
            words = f"{rate.evidence}; healthy GPUs reach {100 * ALONE:.0f} % alone, and no clock was sampled"
            yield fault("clocks", computing * (1 - rate.of_peak / ALONE), words)
            return


def _alone(run: Evidence) -> _Rate | None:
    gpu = hardware.gpu(run.spec.gpu)
    products = (
        [each for each in run.ceilings.gemms if min(each.m, each.n, each.k) >= LARGE]
        if run.ceilings
        else []
    )
    rates = []
    for each in products:
        for rate in each.tflops.get("bf16", {}).values():
            rates.append(rate)
    if gpu is None or not rates:
        return None
    share = max(rates) / gpu.peak_bf16_tflops
    return _Rate(
        share,
        SLOW_ALONE,
        f"the fastest product alone reaches {100 * share:.0f} % of the peak ({CEILINGS})",
    )


def _in_trace(run: Evidence) -> _Rate | None:
    rows = run.fingerprint.products if run.fingerprint else []
    shares = []
    for row in rows:
        if row.of_peak and min(row.m, row.n, row.k) >= LARGE:
            shares.append(row.of_peak)
    if not shares:
        return None
    share = max(shares)
    return _Rate(
        share,
        SLOW_IN_TRAINING,
        f"the fastest large product reaches {100 * share:.0f} % of the peak (trace)",
    )


def at_limit(parts: list[Part]) -> Iterator[Cause]:
    """Name what the products lose at the measured clock if it is no fault: GPUs at full
    load run at their power limit.
    """
    for part in parts:
        if part.cause in ("clocks", "power"):
            evidence = f"{part.evidence}; within what healthy GPUs of this type show"
            yield choice(part.cause, part.seconds, evidence, USUAL)
