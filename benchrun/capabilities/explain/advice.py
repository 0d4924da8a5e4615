"""Causes, and what to change about them."""

from collections.abc import Iterator

import numpy as np
import yaml

from benchrun.frameworks.registry import FRAMEWORKS
from benchrun.judge.difference import NOTICEABLE
from benchrun.measure.statistics import Floats
from benchrun.paths import table
from benchrun.recipes.capability import incapable
from benchrun.runspec.identity import value_of
from benchrun.runspec.spec import TrainingSpec

from .model import Cause, Cure, Name, Saving
from .saving import between, of_share

SPREAD = 0.4
"""Half of a 90 % interval of repeats over the distance of the steps' quartiles."""


def fault(
    cause: Name,
    seconds: float,
    evidence: str,
    rank: int | None = None,
    host: str | None = None,
    saving: Saving | None = None,
) -> Cause:
    """A cause of kind ``fault``, without advice; ``seconds`` of a step."""
    return Cause(
        cause=cause,
        kind="fault",
        seconds=seconds,
        saving_s=saving,
        rank=rank,
        host=host,
        evidence=evidence,
        advice="",
    )


def choice(
    cause: Name, seconds: float, evidence: str, advice: str = "", saving: Saving | None = None
) -> Cause:
    """A cause of kind ``choice``; ``seconds`` of a step."""
    return Cause(
        cause=cause,
        kind="choice",
        seconds=seconds,
        saving_s=saving,
        evidence=evidence,
        advice=advice,
    )


def advised(cause: Cause, spec: TrainingSpec | None, times: Floats) -> Cause:
    """Return the cause with the advice of the table, unless it has its own, and with what
    each and the best saves.

    Left out is a setting that the run has, and one that its framework would refuse.
    ``spec``: None if the settings are not known; ``times``: of the steps, in s.
    """
    whole = cause.saving_s
    if cause.advice:
        return cause.model_copy(update={"cures": (Cure(advice=cause.advice, saving_s=whole),)})
    cures = tuple(_cures(cause, spec, times))
    advice = "; ".join(cure.advice for cure in cures)
    savings = [cure.saving_s for cure in cures if cure.saving_s]
    best = whole
    if cause.kind == "choice":
        best = max(savings, key=lambda saved: saved.median, default=whole)
    return cause.model_copy(update={"advice": advice, "cures": cures, "saving_s": best})


def _cures(cause: Cause, spec: TrainingSpec | None, times: Floats) -> Iterator[Cure]:
    """Every advice. A fault ends as a whole, by any that is no setting and has no shares."""
    whole, faulty = cause.saving_s, cause.kind == "fault"
    step_s = float(np.mean(times))
    low, high = np.quantile(times, (0.25, 0.75))
    apart = max(NOTICEABLE * step_s, SPREAD * (high - low))
    for row in table(__file__):
        if row["cause"] == cause.cause and (
            spec is None or not row["set"] or _possible(spec, *row["set"].split("="))
        ):
            saved, least, most = None, row["least"], row["most"]
            if faulty and not row["set"] and not least:
                least = most = "1"
            if whole and most and (least == "1" or not faulty):
                limit = float(row["of_step"] or 1) * step_s
                saved = of_share(whole, float(least), float(most), limit)
                saved = between(saved.low - apart, saved.high + apart)
            yield Cure(advice=row["advice"], saving_s=saved)


def _possible(spec: TrainingSpec, field: str, text: str) -> bool:
    """Whether a field of ``training`` can be set to a value that it does not have, and of
    use: the layers of megatron-core's local implementation stay as they are.
    """
    value = yaml.safe_load(text)
    if field == "training.fused_kernels" and spec.training.transformer_impl == "local":
        return False
    framework = FRAMEWORKS[spec.framework]
    if value_of(spec, field) == value:
        return False
    training = spec.training.model_copy(update={field.removeprefix("training."): value})
    changed = spec.model_copy(update={"training": training})
    return set(incapable(changed, framework)) <= set(incapable(spec, framework))
