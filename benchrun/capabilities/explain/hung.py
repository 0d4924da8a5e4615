"""Explaining a job that hangs: by the files of its run, or by dumps alone."""

import math
from pathlib import Path
from typing import Literal

from pydantic import Field

from benchrun.capabilities.hangs.find import at_work, hang_of
from benchrun.capabilities.hangs.model import Hang
from benchrun.errors import reading
from benchrun.model import Frozen
from benchrun.rundir.artifacts import HANGS
from benchrun.rundir.folder import RunDir
from benchrun.vocabulary import Exit


class Hung(Frozen):
    """Explanation of a job without steps to explain: whether it hangs, and who is the cause."""

    schema_version: Literal[1] = 1
    run: str
    step_time_s: None = None
    waterfall: tuple[()] = ()
    causes: tuple[()] = ()
    missing: tuple[str, ...] = ()
    """Why no step can be explained."""
    hang: Hang | None
    """Null where nothing hangs: a slow checkpoint, a slow loader."""
    of_dumps: bool = Field(default=False, exclude=True)
    """Whether no run was asked for."""

    @property
    def exit_code(self) -> Exit:
        """INCONCLUSIVE with a hang, and for a run, because it has no steps to explain."""
        return Exit.OK if self.of_dumps and self.hang is None else Exit.INCONCLUSIVE


def explain_dumps(folder: Path) -> Hung:
    """Explain dumps of PyTorch's Flight Recorder, one file a rank, of any job.

    Other files are left out. UserError without a dump, and for one that would run code.
    """
    with reading(folder):
        files = [path for path in folder.iterdir() if path.is_file()]
    return Hung(run=str(folder), hang=hang_of(files), of_dumps=True)


def explain_hung(run: RunDir) -> Hung | None:
    """Explain what was written when ``run`` hung; None if nothing was."""
    folder = run.path / HANGS
    files = [path for path in folder.glob("*") if path.is_file() and path.stat().st_size]
    if not files:
        return None
    deadline_s = run.spec.cluster.step_deadline_s or math.inf
    hang = hang_of(files, deadline_s, run.spec.num_gpus)
    missing = []
    done = run.done()
    if hang is None and done and done.no_step_s:
        missing.append(f"no step for {done.no_step_s} s: {at_work(files)}")
    return Hung(run=run.run_id, missing=tuple(missing), hang=hang)
