"""Judging runs, repeats of one point together, and logs of jobs that benchrun did not launch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from benchrun.app.logs import setting as complete
from benchrun.app.measurement import RunMeasurement, measure_run, store_measurement
from benchrun.app.predictions import expected_step
from benchrun.app.status import end_of, record_end
from benchrun.compare.choice import references_for
from benchrun.compare.conditions import Conditions, conditions, shape_of
from benchrun.compare.expected import UNJUDGED, against
from benchrun.compare.measured import copies, load_measured, measured_references
from benchrun.compare.verdict import Verdict, judge
from benchrun.errors import UserError
from benchrun.frameworks.logs import DIALECTS
from benchrun.launch.endings import Ending
from benchrun.launch.launcher import Observation, observe
from benchrun.launch.rundir import RunDir
from benchrun.metrics.model import Metrics
from benchrun.metrics.setting import Setting, as_logged, stated
from benchrun.metrics.summary import measure
from benchrun.model import ModelShape
from benchrun.parse import Log
from benchrun.recipe import catalogue
from benchrun.recipe.schema import TrainingRecipe
from benchrun.spec.artifacts import VERDICT
from benchrun.spec.reduction import dimensions, reductions


@dataclass(frozen=True)
class Judgement:
    """The verdict on the repeats of one point, and what it rests on."""

    verdict: Verdict
    observations: tuple[Observation, ...]
    measurements: tuple[RunMeasurement, ...]
    """Of the runs that have a log."""

    @property
    def metrics(self) -> Metrics | None:
        """Numbers of the first run; None where none has a log."""
        return self.measurements[0].metrics if self.measurements else None


def repeats(runs: Sequence[RunDir]) -> list[list[RunDir]]:
    """Runs grouped by what they measure, in the order given."""
    groups: dict[str, list[RunDir]] = {}
    for run in runs:
        groups.setdefault(run.spec.repeat_key(), []).append(run)
    return list(groups.values())


def judge_runs(
    runs: Sequence[RunDir], warmup: int | None = None, reference: str | None = None, others: Sequence[RunDir] = ()
) -> Judgement:
    """Judge the repeats of one point together, from their files. Nothing is written.

    ``reference`` is the id of the only number to compare with. None of ``others``, which are judged at the same time,
    becomes a reference. UserError for runs of several points, for a run that has not ended, and for a ``reference`` of
    other work.
    """
    if len(repeats(runs)) != 1:
        raise UserError(f"{len(repeats(runs))} points are judged together", hint="judge each group of repeats(runs)")
    observations = tuple(observe(runs))
    if going := [observation.run.run_id for observation in observations if not observation.over]:
        raise UserError(f"{going[0]} has not ended", hint=f"benchrun status {going[0]}")
    endings = {observation.run.run_id: end_of(observation).ending for observation in observations}
    broken = next((name for name, ending in endings.items() if ending is not Ending.COMPLETED), None)
    measurements = tuple(measurement for run in runs if (measurement := measure_run(run, warmup)) is not None)
    verdict = verdict_on(
        conditions(runs[0].spec),
        [measurement.metrics for measurement in measurements],
        [measurement.log for measurement in measurements],
        reference,
        ending=endings[broken].value if broken else Ending.COMPLETED.value,
        names=[run.run_id for run in (*runs, *others)],
    )
    if reference is None and verdict.verdict in UNJUDGED and (expected := expected_step(runs[0].spec)):
        verdict = against(expected, verdict, [measurement.metrics for measurement in measurements])
    if broken and len(runs) > 1:
        verdict = verdict.model_copy(update={"reason": f"{verdict.reason} ({broken})"})
    return Judgement(verdict, observations, measurements)


def store_judgement(judgement: Judgement) -> None:
    """Write endings, measurements and the verdict into the runs, where that is allowed."""
    for observation in judgement.observations:
        record_end(observation)
    for measurement in judgement.measurements:
        store_measurement(measurement)
    for observation in judgement.observations:
        if observation.run.writable:
            observation.run.write_json(VERDICT, judgement.verdict.model_dump(mode="json"))


def verdict_on(
    own: Conditions,
    metrics: Sequence[Metrics],
    logs: Sequence[Log],
    reference: str | None,
    *,
    ending: str | None = None,
    names: Sequence[str] = (),
) -> Verdict:
    """The verdict against published numbers; where none is comparable, against our own measurements.

    Against ``reference`` alone where one is named. Stored runs with a name of ``names`` or with the steps of one of
    ``logs`` are left out: a run is no reference for itself.
    """
    named = reference is not None
    verdict = judge(own, metrics, references_for(reference, own), ending=ending, by_name=named)
    if named or verdict.verdict not in ("no_reference", "not_comparable"):
        return verdict
    stored = load_measured()
    same = {*names, *copies(logs, stored, own)}
    against_stored = judge(own, metrics, measured_references(stored, without=same), ending=ending)
    return against_stored if against_stored.checks else verdict


OPTIONS = {"gbs": "--gbs", "num_gpus": "--num-gpus", "gpu": "--gpu", "precision": "--precision"}


def judge_log(
    log: Log, recipe: str, given: Setting, warmup: int | None = None, reference: str | None = None
) -> tuple[Verdict, Metrics]:
    """Judge a bare log as a run of ``recipe``: the verdict and the numbers. What the log states wins over ``given``.

    UserError for a condition that neither states, and for a log of another model.
    """
    file, workload = catalogue.training_file(recipe)
    given = complete(recipe, given)
    setting = stated(log, given)
    model = _model_of(log, file.name, given.model or workload.model)
    if missing := [option for name, option in OPTIONS.items() if getattr(setting, name) is None]:
        framework = log.framework if log.framework in DIALECTS else "any known framework"
        raise UserError(
            f"the log does not state these conditions: add {' and '.join(missing)}",
            where=log.file,
            hint=None if len(log.steps) else f"it holds no step of {framework}",
        )
    setting = replace(setting, model=model)
    metrics = measure(log, setting, planned_steps=log.planned_steps, warmup=warmup)
    return verdict_on(_conditions(log, file.name, workload, setting, model), [metrics], [log], reference), metrics


def _conditions(log: Log, recipe: str, workload: TrainingRecipe, setting: Setting, model: ModelShape) -> Conditions:
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
        shape=shape_of(workload.model) if setting.task == workload.task else None,
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
