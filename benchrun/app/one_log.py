"""Judging a bare log, of a job that benchrun did not launch."""

from __future__ import annotations

from dataclasses import replace

from benchrun.app.judgement import verdict_on
from benchrun.compare.conditions import Conditions, shape_of
from benchrun.compare.verdict import Verdict
from benchrun.errors import UserError
from benchrun.frameworks.logs import DIALECTS
from benchrun.metrics.measure import measure
from benchrun.metrics.model import Metrics
from benchrun.metrics.setting import Setting, as_logged, stated
from benchrun.model import ModelShape
from benchrun.parse import Log
from benchrun.recipe import catalogue
from benchrun.recipe.proxy import dimensions, reductions
from benchrun.recipe.schema import Recipe

OPTIONS = {"gbs": "--gbs", "num_gpus": "--num-gpus", "gpu": "--gpu", "precision": "--precision"}


def judge_log(
    log: Log, recipe: str, given: Setting, warmup: int | None = None, reference: str | None = None
) -> tuple[Verdict, Metrics]:
    """Judge a bare log as a run of ``recipe``: the verdict and the numbers. What the log states wins over ``given``.

    UserError for a condition that neither states, and for a log of another model.
    """
    file = catalogue.recipe_file(recipe)
    workload = file.recipe
    seq_length = given.seq_length or workload.seq_length
    setting = stated(log, replace(given, seq_length=seq_length, task=workload.task))
    model = _model_of(log, file.name, given.model or workload.model)
    _require(log, setting)
    setting = replace(setting, model=model)
    metrics = measure(log, setting, planned_steps=log.planned_steps, warmup=warmup)
    ours = _conditions(log, file.name, workload, setting, model)
    return verdict_on(ours, [metrics], [log], reference), metrics


def _require(log: Log, setting: Setting) -> None:
    """UserError names the options that would state what the log does not."""
    missing = [option for name, option in OPTIONS.items() if getattr(setting, name) is None]
    if missing:
        framework = log.framework if log.framework in DIALECTS else "any known framework"
        raise UserError(
            f"the log does not say under which conditions it was made: add {' and '.join(missing)}",
            where=log.file,
            hint=None if len(log.steps) else f"it holds no step of {framework}",
        )


def _conditions(log: Log, recipe: str, workload: Recipe, setting: Setting, model: ModelShape) -> Conditions:
    facts, reduced = log.facts, reductions(model, workload.model)
    same = ("gpu", "num_gpus", "precision", "seq_length", "gbs", "task")
    return Conditions(
        **{name: getattr(setting, name) for name in same},
        **{name: getattr(facts, name) for name in ("framework_version", "tp", "pp", "cp", "vp", "ep")},
        recipe=recipe,
        num_layers=model.num_layers,
        dimensions=dimensions(reduced),
        framework=log.framework if len(log.steps) else None,
        mbs=facts.mbs,
        steps=log.planned_steps,
        shape=shape_of(workload.model),
        reduced=reduced,
    )


def _model_of(log: Log, recipe: str, model: ModelShape) -> ModelShape:
    """The recipe's model with the log's dimensions, which may make it a proxy; UserError for another kind of model."""
    facts = log.facts
    for name in ("hidden_size", "num_attention_heads"):
        logged, expected = getattr(facts, name), getattr(model, name)
        if logged is not None and logged != expected:
            raise UserError(f"the log's model has {name} {logged}, {recipe} has {expected}", where=log.file)
    if facts.gated is not None and facts.gated != model.gated:
        mlp = "a gated MLP" if facts.gated else "no gate in its MLP"
        raise UserError(f"the log's model has {mlp}, {recipe} has {model.activation}", where=log.file)
    if model.moe is None and (facts.num_experts or 1) > 1:
        raise UserError(f"the log's model has {facts.num_experts} experts, {recipe} has none", where=log.file)
    return as_logged(model, facts)
