"""Finding runs: all of a folder, and the one that a name stands for."""

import contextlib
import difflib
import os
import re
from datetime import datetime, timezone
from pathlib import Path

from benchrun import kept, paths
from benchrun.errors import UserError, reading
from benchrun.vocabulary import STAMP

from .artifacts import SPEC
from .folder import RunDir

KEPT = "measured:"
"""Begins the id of a reference that is one of benchrun's own kept runs."""


def find_runs(root: Path | None = None) -> list[RunDir]:
    """All runs in ``root`` (the runs folder if None), oldest first."""
    root = root or paths.runs_dir()
    runs = [_opened(root, path) for path in kept.runs(root)]
    return sorted(runs, key=lambda run: (stamp_of(run.run_id), run.run_id))


def stamp_of(run_id: str) -> str:
    """The time of the launch in a run's id, as ``20250102T030405Z``; empty if there is
    none.
    """
    stamp = re.search(STAMP, run_id)
    if not stamp:
        return ""
    return stamp[0]


def day_of(run_id: str) -> str:
    """The day of the launch, by a run's id."""
    stamp = stamp_of(run_id)
    if not stamp:
        return "unknown"
    return f"{stamp[:4]}-{stamp[4:6]}-{stamp[6:8]}"


def launch_time(run_id: str) -> datetime | None:
    """The time in a run's id; None if it has none."""
    with contextlib.suppress(ValueError):  # no stamp, or digits that are no date
        return datetime.strptime(stamp_of(run_id), "%Y%m%dT%H%M%SZ").replace(tzinfo=timezone.utc)
    return None


def launched_at(run: RunDir) -> datetime | None:
    """The time at which a run was launched: that of its id, else of its directory."""
    created = run.time_of("created")
    if created is None:
        return launch_time(run.run_id)
    return launch_time(run.run_id) or datetime.fromtimestamp(created, timezone.utc)


def runs_at(name: str) -> list[RunDir]:
    """The run called ``name``, as `open_run` has it, or all runs of the folder
    ``name``, oldest first.

    UserError if it is neither.
    """
    if not is_folder(name):
        return [open_run(name)]
    if runs := find_runs(Path(name)):
        return runs
    raise UserError(
        "holds no run", where=name, hint=f"each run is a directory in it, with a {SPEC}"
    )


def is_folder(name: str) -> bool:
    """Whether ``name`` is a directory that is no run itself."""
    with reading(name):
        path = kept.place(Path(name))
        return bool(name) and path.is_dir() and not (path / SPEC).exists()


def open_run(name: str, root: Path | None = None) -> RunDir:
    """The run called ``name`` in ``root`` (the runs folder if None), at the path
    ``name``, or among the kept runs.

    The beginning of a run's name is enough if no other run's begins so. UserError if
    its specification cannot be read; if there is no such run it lists close matches.
    """
    root = root or paths.runs_dir()
    if not name:
        raise UserError(
            "the name of a run is empty", hint="an unset variable? benchrun status lists the runs"
        )
    stored = paths.MEASURED / name.removeprefix(KEPT)
    with reading(name):
        places = []
        for path in (root / name, Path(name), stored):
            if (kept.place(path.absolute()) / SPEC).exists():
                places.append(path)
    if not places:
        close = _beginning_with(name, root)
        if len(close) != 1:
            ids = [run.run_id for run in find_runs(root)]
            like = difflib.get_close_matches(name, ids, n=3, cutoff=0.3) or ids
            listing = ([path.name for path in close] or like)[-5:]
            kind = "runs here"
            if close:
                kind = f"{len(close)} begin so"
            hint = "there are no runs"
            if listing:
                hint = f"{kind}: {', '.join(listing)}"
            if Path(name).exists():
                kind = "directory"
                if Path(name).is_file():
                    kind = "file"
                hint = "parse, compare, explain and diff read logs, fingerprint reads traces"
                hint += "; status and report take a folder of runs"
                raise UserError(f"is a {kind}, and no run", where=name, hint=hint)
            raise UserError(
                f"no run is called '{name}' in {root}, and no file or directory is", hint=hint
            )
        places = close
    run = _opened(root, places[0])
    _ = run.spec
    return run


def _beginning_with(name: str, root: Path) -> list[Path]:
    """Runs whose names begin so: at a path those of its folder, else those in ``root``,
    else the kept ones.
    """
    begin = Path(name.removeprefix(KEPT))
    if not begin.name:  # "." or "/" begins every name
        return []
    for folder in (root, paths.MEASURED) if len(begin.parts) == 1 else (begin.parent,):
        if runs := [path for path in kept.runs(folder) if path.name.startswith(begin.name)]:
            return runs
    return []


def _opened(root: Path, path: Path) -> RunDir:
    """The run at ``path``, read-only if it is not directly in ``root`` or belongs to
    another user.
    """
    place = kept.place(path.resolve())
    if place.parent == root.resolve() and place.stat().st_uid == os.geteuid():
        return RunDir(paths.given(root) / place.name)
    return RunDir(place, read_only=True)
