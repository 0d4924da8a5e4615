"""Judging runs: repeats of one point together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchrun.app.ending import end_of, record_end
from benchrun.app.measurement import RunMeasurement, measure_run, store_measurement
from benchrun.compare.choice import references_for
from benchrun.compare.conditions import Conditions, conditions
from benchrun.compare.measured import copies, load_measured, measured_references
from benchrun.compare.verdict import Verdict, judge
from benchrun.errors import UserError
from benchrun.launch.endings import Ending
from benchrun.launch.launcher import Observation, observe
from benchrun.launch.rundir import RunDir
from benchrun.metrics.model import Metrics
from benchrun.parse import Log
from benchrun.spec.artifacts import VERDICT


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
    becomes a reference. UserError for a run that has not ended, and for a ``reference`` of other work.
    """
    observations = tuple(observe(runs))
    going = next((observation for observation in observations if not observation.over), None)
    if going:
        raise UserError(f"{going.run.run_id} has not ended", hint=f"benchrun status {going.run.run_id}")
    ends = [(observation.run, end_of(observation).ending) for observation in observations]
    broken, ending = next(((run, end) for run, end in ends if end is not Ending.COMPLETED), (None, Ending.COMPLETED))
    measurements = tuple(found for run in runs if (found := measure_run(run, warmup)) is not None)
    verdict = verdict_on(
        conditions(runs[0].spec),
        [measurement.metrics for measurement in measurements],
        [measurement.log for measurement in measurements],
        reference,
        ending=ending.value,
        names=[run.run_id for run in (*runs, *others)],
    )
    if broken and len(runs) > 1:
        verdict = verdict.model_copy(update={"reason": f"{verdict.reason} ({broken.run_id})"})
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
    ours: Conditions,
    metrics: Sequence[Metrics],
    logs: Sequence[Log],
    reference: str | None,
    *,
    ending: str | None = None,
    names: Sequence[str] = (),
) -> Verdict:
    """The verdict against published numbers; where none is comparable, against our own kept measurements.

    Against ``reference`` alone where one is named. A kept run is no reference for itself: neither one of ``names``, nor
    one with the steps of one of ``logs``.
    """
    named = reference is not None
    verdict = judge(ours, metrics, references_for(reference, ours), ending=ending, by_name=named)
    if named or verdict.verdict not in ("no_reference", "not_comparable"):
        return verdict
    kept = load_measured()
    same = {*names, *copies(logs, kept, ours)}
    own = judge(ours, metrics, measured_references(kept, without=same), ending=ending)
    return own if own.checks else verdict
