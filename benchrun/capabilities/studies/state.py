"""The directory of a study: which run belongs to which point. Only lines are appended,
before a job is submitted.
"""

import contextlib
import errno
import fcntl
import os
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from benchrun import paths
from benchrun.errors import UserError
from benchrun.rundir.artifacts import SPEC
from benchrun.rundir.folder import RunDir

SUFFIX = ".study"
"""Ending of the directory's name, beside the runs."""
LOCK = ".lock"
Slot = tuple[str, int]
"""The key of a point, and the number of the repeat, from 1."""


class StudyDir:
    """``NAME.study`` in the runs folder; its events.jsonl has a line for each run that
    was prepared.
    """

    def __init__(self, name: str, root: Path | None = None) -> None:
        self.root = root or paths.runs_dir()
        self.path = self.root / f"{name}{SUFFIX}"

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Make the directory, and hold its lock, so that no second launcher of this
        study works at the same time.

        UserError if another one holds the lock. The lock ends with its process, however
        that ends.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            file = os.open(self.path / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
        except OSError as error:
            hint = "run from a directory you can write, or set BENCHRUN_RESULTS"
            raise UserError(f"cannot write {self.path}: {error.strerror}", hint=hint) from error
        with os.fdopen(file, "r+b"):
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                if error.errno not in (errno.EAGAIN, errno.EACCES):
                    raise
                hint = "it goes on there; --report shows how far it is"
                raise UserError(
                    f"another process launches these runs: {self.path}", hint=hint
                ) from None
            yield

    def record(self, slot: Slot, run: RunDir) -> None:
        """Note that ``run``, which is not submitted yet, is of this slot."""
        RunDir(self.path).append_event("prepared", point=slot[0], repeat=slot[1], run=run.run_id)

    def runs(self) -> dict[Slot, list[RunDir]]:
        """The runs of each slot, the oldest first; a run whose directory was removed is
        left out.

        A run that is listed twice for a point is one run: it counts for the slot of its
        first line.
        """
        seen = set()
        runs = defaultdict(list)
        root = paths.given(self.root)
        for event in RunDir(self.path).events():
            point, repeat, name = event.get("point"), event.get("repeat"), event.get("run")
            if (
                event["event"] != "prepared"
                or not isinstance(name, str)
                or "/" in name
                or isinstance(repeat, bool)
            ):
                continue
            if (
                isinstance(point, str)
                and isinstance(repeat, int)
                and (root / name / SPEC).is_file()
            ):
                if (point, name) in seen:
                    continue
                seen.add((point, name))
                runs[point, repeat].append(RunDir(root / name))
        return dict(runs)
