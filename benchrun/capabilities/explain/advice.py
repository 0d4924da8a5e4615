"""Causes, and what to change about them."""

from collections.abc import Iterator

import yaml

from benchrun.frameworks.registry import FRAMEWORKS
from benchrun.paths import table
from benchrun.recipes.capability import incapable
from benchrun.runspec.identity import value_of
from benchrun.runspec.spec import TrainingSpec

from .model import Cause, Name, Saving


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


def choice(cause: Name, seconds: float, evidence: str, advice: str = "") -> Cause:
    """A cause of kind ``choice``; ``seconds`` of a step."""
    return Cause(cause=cause, kind="choice", seconds=seconds, evidence=evidence, advice=advice)


def advised(cause: Cause, spec: TrainingSpec | None) -> Cause:
    """Return the cause with the advice of the table, unless it has its own.

    Left out is a setting that the run has, and one that its framework would refuse.
    ``spec``: None if the settings are not known.
    """
    if cause.advice:
        return cause
    return cause.model_copy(update={"advice": "; ".join(_advice(cause.cause, spec))})


def _advice(cause: Name, spec: TrainingSpec | None) -> Iterator[str]:
    for row in table(__file__):
        if row["cause"] == cause and (
            spec is None or not row["set"] or _possible(spec, *row["set"].split("="))
        ):
            yield row["advice"]


def _possible(spec: TrainingSpec, field: str, text: str) -> bool:
    """Whether a field of ``training`` can be set to a value that it does not have."""
    value = yaml.safe_load(text)
    framework = FRAMEWORKS[spec.framework]
    if value_of(spec, field) == value:
        return False
    training = spec.training.model_copy(update={field.removeprefix("training."): value})
    changed = spec.model_copy(update={"training": training})
    return set(incapable(changed, framework)) <= set(incapable(spec, framework))
