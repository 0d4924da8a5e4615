"""Causes, and what to change about them."""

from collections.abc import Iterator

import yaml

from benchrun.frameworks.registry import FRAMEWORKS
from benchrun.judge.difference import NOTICEABLE
from benchrun.paths import table
from benchrun.recipes.capability import incapable
from benchrun.runspec.identity import value_of
from benchrun.runspec.spec import TrainingSpec

from .model import Cause, Cure, Name, Saving
from .saving import of_another_run, of_share


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


def advised(cause: Cause, spec: TrainingSpec | None, step_s: float) -> Cause:
    """Return the cause with the advice of the table, unless it has its own, and with what
    each and the best saves.

    Left out is a setting that the run has, and one that its framework would refuse.
    ``spec``: None if the settings are not known.
    """
    whole = cause.saving_s
    if cause.advice:
        return cause.model_copy(update={"cures": (Cure(advice=cause.advice, saving_s=whole),)})
    cures = tuple(_cures(cause, spec, step_s))
    advice = "; ".join(cure.advice for cure in cures)
    savings = [cure.saving_s for cure in cures if cure.saving_s]
    best = whole
    if cause.kind == "choice":
        best = max(savings, key=lambda saved: saved.median, default=whole)
    return cause.model_copy(update={"advice": advice, "cures": cures, "saving_s": best})


def _cures(cause: Cause, spec: TrainingSpec | None, step_s: float) -> Iterator[Cure]:
    """Every advice. A fault ends as a whole, by any advice that is no setting and has no
    shares of its own.
    """
    whole, faulty = cause.saving_s, cause.kind == "fault"
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
                saved = of_another_run(saved, NOTICEABLE * step_s)
            yield Cure(advice=row["advice"], saving_s=saved)


def _possible(spec: TrainingSpec, field: str, text: str) -> bool:
    """Whether a field of ``training`` can be set to a value that it does not have."""
    value = yaml.safe_load(text)
    framework = FRAMEWORKS[spec.framework]
    if value_of(spec, field) == value:
        return False
    training = spec.training.model_copy(update={field.removeprefix("training."): value})
    changed = spec.model_copy(update={"training": training})
    return set(incapable(changed, framework)) <= set(incapable(spec, framework))
