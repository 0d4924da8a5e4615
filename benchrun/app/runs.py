"""Opening runs, and what their files hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

from pydantic import BaseModel, ValidationError

from benchrun import paths
from benchrun.errors import UserError
from benchrun.launch import rundir
from benchrun.launch.endings import recorded
from benchrun.launch.rundir import RunDir
from benchrun.spec.artifacts import ENDING, VERDICT

if TYPE_CHECKING:
    from benchrun.compare.result import RunResult

D = TypeVar("D", bound=BaseModel)


def open_run(name: str) -> RunDir:
    """The run called ``name`` in the runs folder, or at that path. UserError lists close matches."""
    return rundir.open_run(paths.runs_dir(), name)


def open_runs(names: Sequence[str]) -> list[RunDir]:
    """Each of the runs called ``names`` once. UserError for the first that does not exist."""
    return rundir.open_runs(paths.runs_dir(), names)


def newest_runs(last: int | None = None) -> tuple[list[RunDir], list[UserError]]:
    """Readable runs of the runs folder, oldest first, and an error for each unreadable one; the ``last`` or all."""
    readable, errors = [], []
    for run in rundir.find_runs(paths.runs_dir())[-last if last else 0 :]:
        try:
            run.spec  # noqa: B018
        except UserError as error:
            errors.append(error)
        else:
            readable.append(run)
    return readable, errors


def result_of(run: RunDir) -> RunResult:
    """Measurement, recorded verdict and recorded ending of one run; it is measured anew from its log."""
    from benchrun.app.measurement import measure_run
    from benchrun.compare.result import RunResult
    from benchrun.compare.verdict import Verdict

    verdict = document_of(run, VERDICT, Verdict)
    measurement = measure_run(run, verdict.warmup if verdict else None)
    end = recorded(run.read_json(ENDING))
    metrics = measurement.metrics if measurement else None
    return RunResult(run.run_id, run.spec, metrics, verdict, end.ending.value if end else None)


def document_of(run: RunDir, name: str, model: type[D]) -> D | None:
    """A JSON file of the run as its model; None where there is none. UserError where it holds something else."""
    document = run.read_json(name)
    if document is None:
        return None
    try:
        return model.model_validate(document)
    except ValidationError as error:
        where, hint = str(run.path / name), "another version wrote it, or it is damaged; move it away"
        raise UserError(f"not what benchrun writes: {error.errors()[0]['msg']}", where=where, hint=hint) from None
