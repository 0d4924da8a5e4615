"""Judging runs, repeats of one point together, and logs of jobs that benchrun did not
launch.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from benchrun import extensions
from benchrun.errors import UserError
from benchrun.frameworks.logs import DIALECTS
from benchrun.jobs.endings import Ending
from benchrun.jobs.launcher import Observation, observe
from benchrun.judge.choice import references_for
from benchrun.judge.conditions import Conditions, conditions, conditions_of_log, with_machine
from benchrun.judge.copies import times_of, without_copies
from benchrun.judge.expected import UNJUDGED, against
from benchrun.judge.measured import by_point, copies, load_measured, measured_references
from benchrun.judge.verdict import Verdict, judge
from benchrun.logs import Log
from benchrun.measure.model import Metrics
from benchrun.measure.run import RunMeasurement
from benchrun.measure.setting import Setting, as_trained, setting_of_log
from benchrun.measure.summary import measure
from benchrun.recipes import catalogue
from benchrun.rundir.artifacts import ENV, VERDICT
from benchrun.rundir.folder import RunDir
from benchrun.runspec.spec import NodesSpec, RunSpec

from .baselines import baseline_runs, is_published
from .expectations import expected_step
from .jobs import end_of, record_end
from .measurement import measure_run, store_measurement
from .settings import completed_setting

PARSE = "its numbers: benchrun parse LOG; a run that benchrun launched has a verdict"
Numbers = Sequence[tuple[Metrics, Log]]
"""Numbers and log of each repeat."""


@dataclass(frozen=True)
class Judgement:
    """The verdict on the repeats of one point, and what it rests on."""

    verdict: Verdict
    observations: tuple[Observation, ...]
    measurements: tuple[RunMeasurement, ...]
    """Measurements of the runs that have a log."""

    @property
    def metrics(self) -> Metrics | None:
        """Numbers of the first run; None if none has a log."""
        if not self.measurements:
            return None
        return self.measurements[0].metrics


def repeats(runs: Sequence[RunDir]) -> list[list[RunDir]]:
    """Runs grouped by what they measure, in the order given."""
    return by_point(runs)


def judge_runs(
    runs: Sequence[RunDir],
    warmup: int | None = None,
    reference: str | None = None,
    others: Sequence[RunDir] = (),
) -> Judgement:
    """Judge the repeats of one point together, from their files. Nothing is written.

    ``reference`` is what alone they are compared with: the id of a published number, a
    run, or a folder of runs. Without it none of ``others``, which are judged at the
    same time, becomes a reference. UserError for runs of several points, for a run that
    has not ended, and for a ``reference`` that does not exist or is of other work.
    """
    if len(repeats(runs)) != 1:
        raise UserError(
            f"{len(repeats(runs))} points are judged together",
            hint="judge each group of repeats(runs)",
        )
    if isinstance(runs[0].spec, NodesSpec):
        raise UserError(
            "a check of nodes has no verdict", hint=f"benchrun nodes --run {runs[0].run_id}"
        )
    observations = tuple(observe(runs))
    if going := [observation.run.run_id for observation in observations if not observation.over]:
        raise UserError(f"{going[0]} has not ended", hint=f"benchrun status {going[0]}")
    endings = ((observation.run.run_id, end_of(observation).ending) for observation in observations)
    broken, ending = next(
        (each for each in endings if each[1] is not Ending.COMPLETED), ("", Ending.COMPLETED)
    )
    measured = []
    for run in runs:
        if (measurement := measure_run(run, warmup)) is not None:
            measured.append(measurement)
    measurements = without_copies(measured, [times_of(measurement.log) for measurement in measured])
    names = [run.run_id for run in (*runs, *(others if reference is None else ()))]
    environment = runs[0].read_json(ENV) or {}
    verdict = verdict_together(
        runs[0].spec, measurements, ending.value, reference, names, environment
    )
    if broken and len(runs) > 1:
        verdict = verdict.model_copy(update={"reason": f"{verdict.reason} ({broken})"})
    if copied := len(measured) - len(measurements):
        reason = f"{verdict.reason}; {copied} of {len(measured)} runs {'is a copy' if copied == 1 else 'are copies'}"
        verdict = verdict.model_copy(update={"reason": reason})
    return Judgement(verdict, observations, tuple(measured))


def verdict_together(
    spec: RunSpec,
    measurements: Sequence[RunMeasurement],
    ending: str,
    reference: str | None = None,
    names: Sequence[str] = (),
    environment: Mapping[str, Any] = MappingProxyType({}),
) -> Verdict:
    """The verdict on ``measurements`` of ``spec``, whose job ended so; against a
    prediction if no number is known.

    ``names`` are runs that are no reference for these; ``environment`` is what env.json
    has of the first run.
    """
    numbers = [(measurement.metrics, measurement.log) for measurement in measurements]
    own = with_machine(conditions(spec), environment)
    verdict = verdict_on(own, numbers, reference, ending=ending, names=names)
    if reference is None and verdict.verdict in UNJUDGED and (expected := expected_step(spec)):
        return against(expected, verdict, [measurement.metrics for measurement in measurements])
    return verdict


def store_judgement(judgement: Judgement, *, what_if: bool = False) -> None:
    """Write endings, measurements and the verdict into the runs, if that is allowed.

    ``what_if``: the question had another warm-up or reference than usual; its answer
    replaces no stored one.
    """

    def is_stored(run: RunDir) -> bool:
        return what_if and run.read_json(VERDICT) is not None

    for measurement in judgement.measurements:
        if not is_stored(measurement.run):
            store_measurement(measurement)
    for observation in judgement.observations:
        record_end(observation)
        if observation.run.writable and not is_stored(observation.run):
            observation.run.write_json(VERDICT, judgement.verdict.document())


def verdict_on(
    own: Conditions,
    runs: Numbers,
    reference: str | None,
    *,
    ending: str | None = None,
    names: Sequence[str] = (),
) -> Verdict:
    """The verdict against published numbers; if none is comparable, against our own
    measurements.

    Against ``reference`` alone if one is named: a published number, a run or a folder
    of runs. Stored runs with a name of ``names`` or with the steps of one of ``runs``
    are left out: a run is no reference for itself.
    """
    if reference is not None and not is_published(reference):
        return _against_baseline(own, runs, reference, ending=ending, names=names)
    named = reference is not None
    metrics = [numbers for numbers, _ in runs]
    verdict = judge(own, metrics, references_for(reference, own), ending=ending, by_name=named)
    if named or verdict.verdict not in ("no_reference", "not_comparable"):
        return verdict
    stored = load_measured()
    same = {*names, *copies([log for _, log in runs], stored, own)}
    against_stored = judge(own, metrics, measured_references(stored, without=same), ending=ending)
    if against_stored.checks:
        return against_stored
    return verdict


def _against_baseline(
    own: Conditions, runs: Numbers, name: str, *, ending: str | None, names: Sequence[str]
) -> Verdict:
    """The verdict against the runs called ``name``; they are compared like published
    numbers.
    """
    stored = baseline_runs(name, own)
    same = {*names, *copies([log for _, log in runs], stored, own)}
    others = measured_references(stored, same, baseline=name)
    verdict = judge(own, [metrics for metrics, _ in runs], others, ending=ending)
    if verdict.verdict != "no_reference":
        return verdict
    besides = "but the one that is judged "
    if same.isdisjoint(run.name for run in stored):
        besides = ""
    reason = f"the baseline {name} has no measured run {besides}of {own.recipe} on {own.gpu}"
    return verdict.model_copy(update={"reason": reason})


def judge_log(
    log: Log, recipe: str, given: Setting, warmup: int | None = None, reference: str | None = None
) -> tuple[Verdict, Metrics]:
    """Judge a bare log as a run of ``recipe``: the verdict and the numbers. What the
    log states wins over ``given``.

    UserError for a condition that neither states, and for a log of another model.
    """
    served = catalogue.recipe_file(recipe)
    if served.recipe.workload == "post-training" or log.post_training:
        why = "no log states the prompts and responses of a step, their lengths, the engine and the age of a response"
        raise UserError(
            f"a bare log of post-training has no verdict: {why}", where=log.file, hint=PARSE
        )
    if served.recipe.workload != "training":
        result_conditions = extensions.capability("serving.judging", "result_conditions")
        own, setting = result_conditions(log, served, completed_setting(None, given))
        metrics = measure(log, setting, planned_steps=None, warmup=warmup)
        return verdict_on(own, [(metrics, log)], reference), metrics
    file, workload = catalogue.training_file(recipe)
    given = completed_setting(recipe, given)
    setting = setting_of_log(log, given)
    model = as_trained(given.model or workload.model, log)
    if missing := [
        name for name in ("gbs", "num_gpus", "gpu", "precision") if getattr(setting, name) is None
    ]:
        options = " and ".join(f"--{name.replace('_', '-')}" for name in missing)
        framework = "any known framework"
        if log.framework in DIALECTS:
            framework = log.framework
        hint = None
        if not len(log.steps):
            hint = log.symptoms.get("truncated_file", f"the log has no step of {framework}")
        raise UserError(
            f"the log does not state these conditions: add {options}",
            where=log.file,
            hint=hint,
        )
    metrics = measure(
        log, replace(setting, model=model), planned_steps=log.planned_steps, warmup=warmup
    )
    own = conditions_of_log(log, setting, model, file.name, workload)
    return verdict_on(own, [(metrics, log)], reference), metrics
