"""Opening runs, and what their files hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from benchrun import paths
from benchrun.errors import UserError
from benchrun.launch import rundir
from benchrun.launch.rundir import RunDir

D = TypeVar("D", bound=BaseModel)


def open_run(name: str) -> RunDir:
    """The run called ``name`` in the runs folder, or at that path. UserError lists close matches."""
    return rundir.open_run(paths.runs_dir(), name)


def open_runs(names: Sequence[str]) -> list[RunDir]:
    """Each of the runs called ``names`` once. UserError for the first that does not exist."""
    return rundir.open_runs(paths.runs_dir(), names)


def newest_runs(last: int | None = None) -> list[RunDir]:
    """The ``last`` runs of the runs folder, or all, oldest first."""
    return rundir.find_runs(paths.runs_dir())[-last if last else 0 :]


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
