"""Makes the folder of a new run, with every file that its job needs."""

import contextlib
import secrets
import shutil
from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path

from benchrun import clock, paths
from benchrun.errors import UserError
from benchrun.frameworks.registry import framework
from benchrun.rundir.artifacts import WORKER
from benchrun.rundir.folder import RunDir
from benchrun.runspec.spec import RunSpec


def create(root: Path, spec: RunSpec, files: Mapping[str, str]) -> RunDir:
    """Make a new run directory below ``root``, also for two launches at the same
    moment.

    It appears with all its files: a launcher that is killed meanwhile leaves a hidden
    directory, which is no run.
    """
    stamp = datetime.fromtimestamp(clock.now(), timezone.utc).strftime("%Y%m%dT%H%M%SZ")
    try:
        root.mkdir(parents=True, exist_ok=True)
        while True:  # the random part keeps jobs of two results folders apart, too
            path = root / f"{spec.recipe}-{spec.identity()}-{stamp}-{secrets.token_hex(2)}"
            new = path.with_name(f".{path.name}")
            with contextlib.suppress(FileExistsError):
                new.mkdir()
                if not path.exists():
                    break
                new.rmdir()
        with contextlib.ExitStack() as undo:
            undo.callback(shutil.rmtree, new, ignore_errors=True)
            write_files(new, spec, files)
            RunDir(new).append_event("created", recipe=spec.recipe, identity=spec.identity())
            new.rename(path)
            undo.pop_all()
    except OSError as error:
        hint = "run from a directory you can write, or set BENCHRUN_RESULTS"
        # Copying a tree raises one error for all files, each with its reason.
        why = error.args[0][0][-1] if isinstance(error, shutil.Error) else error.strerror
        raise UserError(f"cannot write {error.filename or root}: {why}", hint=hint) from error
    return RunDir(paths.given(path))


def write_files(path: Path, spec: RunSpec, files: Mapping[str, str]) -> None:
    """Write the files of a job into ``path``. UserError if one exists."""
    taken = [name for name in files if (path / name).exists()]
    if taken:
        raise UserError(f"{path / taken[0]} exists", hint="name an empty or new directory")
    path.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (path / name).write_text(text, encoding="utf-8")
        if name.endswith(".sh"):
            (path / name).chmod(0o755)
    if framework(spec.framework).ships(spec) or spec.reads_files:
        # The run has its own copy of the worker: later edits do not reach it, and nodes
        # need only the shared directory.
        ignore = shutil.ignore_patterns("__pycache__", "_data", "*.pyc")
        shutil.copytree(paths.PACKAGE, path / WORKER / "benchrun", ignore=ignore)
        if spec.reads_files:
            shutil.copytree(paths.DATAGEN, path / WORKER / "datagen", ignore=ignore)
