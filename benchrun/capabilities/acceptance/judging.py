"""Acceptance plans: reading them, and judging every criterion. `studies.usecase`
launches and resumes their runs.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from benchrun.capabilities.nodes.fleet import Fleet
from benchrun.capabilities.nodes.usecase import fleet_of, store_fleet
from benchrun.capabilities.studies.state import StudyDir
from benchrun.errors import UserError
from benchrun.jobs.endings import Ending, recorded, recorded_name, unreadable_ending
from benchrun.jobs.launcher import refusal
from benchrun.judge.checks import broken_run
from benchrun.judge.verdict import RunResult
from benchrun.measure.run import RunMeasurement
from benchrun.rundir.artifacts import ENDING, VERDICT
from benchrun.rundir.folder import RunDir
from benchrun.usecases.judgement import verdict_together
from benchrun.usecases.measurement import measure_run, store_measurement

from .criteria import Acceptance, PointEvidence, judged
from .plan import ResolvedPlan, on_nodes, planned, read_plan


@dataclass(frozen=True)
class Appraisal:
    """The verdict on a plan, and what it rests on."""

    acceptance: Acceptance
    results: Mapping[RunDir, RunResult]
    """Every run that has ended, with the verdict on its point."""
    measurements: Mapping[RunDir, RunMeasurement]
    """Measurements of the runs that have a log."""
    fleets: Mapping[RunDir, Fleet]
    """Result of each nodes check."""


def plan_acceptance(
    name: str,
    cluster: str | None = None,
    title: str | None = None,
    num_nodes: int | None = None,
) -> ResolvedPlan:
    """The plan in a file, or the shipped one of that name, with its points resolved.

    ``cluster`` takes the place of the file's. ``title`` names the plan's directory:
    another one has runs of its own. ``num_nodes``: of the cluster, where the plan is for
    another number. UserError names every problem of the file.
    """
    if title is not None and not re.fullmatch(r"[A-Za-z0-9][\w.-]*", title):
        raise UserError(f"--name {title}: expected a name of letters, digits, '-', '_' and '.'")
    stem, file, document = read_plan(name)
    if num_nodes is not None:
        file = on_nodes(file, num_nodes, cluster)
        stem = f"{stem}-{num_nodes}-nodes"
    changes = {0: {"cluster": cluster}} if cluster else {}
    return planned(title or stem, file, document, changes)


def runs_of(plan: ResolvedPlan) -> dict[int, list[RunDir]]:
    """The runs of each point that have ended, by the point's position from 1, the check
    of nodes at 0; failed attempts too.

    UserError if the ending of one cannot be read: it would be no evidence.
    """
    noted = StudyDir(plan.study.expanded.name).runs()
    numbers = {each.key: number for number, each in plan.numbered.items()}
    launched = plan.check.own(noted) | plan.study.own(noted)
    runs: dict[int, list[RunDir]] = {}
    for slot in sorted(launched, key=lambda slot: slot[1]):
        for run in filter(unreadable_ending, launched[slot]):
            hint = "move it away, and the same command determines it again or launches another run"
            raise UserError("not what benchrun writes", where=run.path / ENDING, hint=hint)
        ended = [run for run in launched[slot] if recorded(run) and not refusal(run)]
        runs.setdefault(numbers[slot[0]], []).extend(ended)
    return runs


def appraise(plan: ResolvedPlan, runs: Mapping[int, Sequence[RunDir]]) -> Appraisal:
    """Measure ``runs``, by the position of their point, from their logs, and judge
    every criterion. Writes nothing.

    UserError for a damaged file.
    """
    fleets = {run: fleet_of(run, named=not run.read_only) for run in runs.get(0, ())}
    measurements = {}
    results = {}
    evidence = []
    for number, point in enumerate(plan.study.points, 1):
        assert point.spec is not None
        own = runs.get(number, ())
        valid = []
        for run in own:
            ending = recorded_name(run)
            metrics = None
            if measured := measure_run(run):
                measurements[run] = measured
                metrics = measured.metrics
                if not broken_run(metrics, ending):
                    valid.append(run)
            results[run] = RunResult(run.run_id, run.spec, metrics, None, ending)
        verdict = None
        if valid:
            verdict = verdict_together(
                valid[0].spec,
                [measurements[run] for run in valid],
                Ending.COMPLETED.value,
                names=[run.run_id for run in own],
            )
        for run in valid:
            results[run] = replace(results[run], verdict=verdict)
        ended = tuple(results[run] for run in own)
        evidence.append(PointEvidence(point.spec, plan.criteria(number), ended, verdict))
    acceptance = judged(plan, evidence, {run.run_id: fleet for run, fleet in fleets.items()})
    return Appraisal(acceptance, results, measurements, fleets)


def store_appraisal(appraisal: Appraisal) -> None:
    """Write measurements and verdicts into the runs, if that is allowed."""
    for measurement in appraisal.measurements.values():
        store_measurement(measurement)
    for run, fleet in appraisal.fleets.items():
        store_fleet(run, fleet)
    for run, result in appraisal.results.items():
        if result.verdict and run.writable:
            run.write_json(VERDICT, result.verdict.document())
