"""The user's baseline: a run, a folder of runs, or a published number."""

from collections.abc import Iterable
from pathlib import Path

from benchrun import kept, paths
from benchrun.errors import UserError
from benchrun.judge.conditions import Conditions, besides_recipe, conditions
from benchrun.judge.measured import MeasuredRun, load_measured
from benchrun.judge.references import load_references
from benchrun.rundir.find import KEPT, is_folder, open_run, runs_at
from benchrun.rundir.folder import RunDir

from .measurement import result_of


def is_published(name: str) -> bool:
    """Whether ``name`` is the id of a published number, or has its form: a file of
    results/reference and a line.
    """
    recipe, _, line = name.partition(":")
    return (
        line.isdecimal()
        and not Path(name).exists()
        and any(e.id.startswith(f"{recipe}:") for e in load_references())
    )


def baseline_runs(name: str, own: Conditions) -> list[MeasuredRun]:
    """The measured runs of the baseline ``name`` under the conditions ``own``, without
    regard to the layout.

    Where there is none, those of the same recipe on the same GPU. UserError for a
    ``name`` that is neither a run nor a folder of runs, and for one of other work.
    """
    run_id = name.removeprefix(KEPT)
    if run_id == Path(run_id).name and paths.MEASURED / run_id in kept.runs(paths.MEASURED):
        return [run for run in load_measured() if run.name == run_id]
    runs = _trainings(name)
    same = []
    for run in runs:
        if besides_recipe(conditions(run.spec)) == besides_recipe(own):
            same.append(run)
    return measured(same) or measured(
        run for run in runs if (run.spec.recipe, run.spec.gpu) == (own.recipe, own.gpu)
    )


def baseline_run(name: str, run: RunDir) -> RunDir:
    """The run called ``name``; of a folder the newest other one with the settings of
    ``run``, else its conditions.
    """
    if not is_folder(name):
        return open_run(name)
    own = besides_recipe(conditions(run.spec))
    others = (each for each in runs_at(name) if each.run_id != run.run_id)
    same = []
    for each in others:
        if besides_recipe(conditions(each.spec)) == own and _valid(each):
            same.append(each)
    if not same:
        raise UserError(
            f"no measured run has the conditions of {run.run_id}", where=name, hint="name one run"
        )
    return (
        [each for each in same if each.spec.step_identity() == run.spec.step_identity()] or same
    )[-1]


def _trainings(name: str) -> list[RunDir]:
    """The trainings among the runs that ``name`` stands for. UserError if it stands for
    none.
    """
    try:
        runs = runs_at(name)
    except UserError as error:
        if Path(name).is_file():
            hint = "benchrun diff compares two logs"
            raise UserError(
                "is a file; a baseline is a run or a folder of runs", where=name, hint=hint
            ) from None
        hint = f"{error.hint}; benchrun show lists the ids of published numbers"
        raise UserError(error.message, where=error.where, hint=hint) from None
    return [run for run in runs if run.spec.stepped]


def measured(runs: Iterable[RunDir]) -> list[MeasuredRun]:
    """Return the ``runs`` that gave numbers."""
    found = []
    for run in runs:
        if valid := _valid(run):
            found.append(valid)
    return found


def _valid(run: RunDir) -> MeasuredRun | None:
    """Measure ``run`` from its log; None for a failed, incomplete or broken run."""
    result = result_of(run, with_log=True)
    measurement = result.measurement
    if measurement is None or result.numbers is None or not run.spec.stepped:
        return None
    return MeasuredRun(
        run.run_id,
        run.spec,
        result.numbers,
        dict(result.environment),
        None,
        run.path,
        measurement.log,
    )
