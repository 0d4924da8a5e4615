"""Traces of GPU runs and their fingerprints."""

from collections.abc import Sequence
from pathlib import Path

from pydantic import ValidationError

from benchrun import kept, paths
from benchrun.errors import UserError
from benchrun.files import check_new, write_new
from benchrun.rundir.artifacts import FINGERPRINT, PROFILE, SPEC
from benchrun.rundir.fingerprint import Fingerprint
from benchrun.rundir.folder import RunDir

from . import timeline
from .fingerprint import fingerprint, windows_of
from .nsight_export import export_report
from .read import is_trace, read_traces, trace_files
from .sentence import sentence
from .window import Choice as Choice


def fingerprint_of(
    files: Sequence[Path], window: Choice = "device"
) -> tuple[Fingerprint, list[Path]]:
    """The fingerprint of the ranks in these files, directories and runs, and the files
    that hold no event of a GPU.

    Of a kept run it is the one that was stored, whatever ``window`` is. UserError for a
    file that is damaged or no trace, for a report of Nsight Systems if nsys is missing,
    and for a window that the trace cannot give.
    """
    if len(files) == 1 and (stored := _stored(files[0])):
        return stored.model_copy(update={"sentence": sentence(stored)}), []
    try:
        traces, empty = read_traces([_of_run(file) for file in files], export_report)
        return fingerprint(traces, window), empty
    except (
        TypeError,
        ValueError,
        LookupError,
        AttributeError,
        OverflowError,
        RecursionError,
    ) as error:
        where = ", ".join(map(str, files))
        raise UserError(
            f"the trace holds values of a wrong kind: {_in_words(error)}", where=where
        ) from error


def save_timeline(files: Sequence[Path], window: Choice, page: Path) -> None:
    """Write the picture of the ranks over time to a new HTML file. UserError as for
    `fingerprint_of`, and for a kept run whose traces were not kept.
    """
    check_new(page)
    if len(files) == 1 and _stored(files[0]):
        raise UserError("the traces of this run were not kept", where=str(files[0]))
    traces, _ = read_traces([_of_run(file) for file in files], export_report)
    name = ", ".join(file.name for file in files)
    write_new(page, timeline.page(windows_of(traces, window), name))


def trace_hint(file: Path) -> str | None:
    """Hint at the verb that reads ``file`` if it is a trace, which has no step of a
    log; None if it is none.
    """
    here = kept.place(file)
    if here.is_file() and is_trace(here):
        return f"it is a trace: benchrun fingerprint {file}"
    return None


def _in_words(error: Exception) -> str:
    """Say what is wrong, in one line."""
    if not isinstance(error, ValidationError):
        return str(error)
    first = error.errors()[0]
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"


def fingerprint_of_run(run: RunDir) -> Fingerprint | None:
    """Fingerprint of a run over whole steps if the traces mark them; None for a run
    without a profile.

    A kept run has the fingerprint in place of the traces. UserError as for
    `fingerprint_of`, but a damaged trace among others is left out.
    """
    return sound_fingerprint(run)[0]


def sound_fingerprint(run: RunDir) -> tuple[Fingerprint | None, list[str]]:
    """Fingerprint of a run, and for each trace that is left out its name and why."""
    folder = run.path / PROFILE
    if not folder.is_dir():
        return run.document(FINGERPRINT, Fingerprint), []
    try:
        return fingerprint_of_steps([folder]), []
    except UserError:
        sound = []
        damaged = []
        for file in trace_files([folder]):
            try:
                fingerprint_of([file])
                sound.append(file)
            except UserError as error:
                damaged.append(f"{file.name}: {error.message}")
        if not sound or not damaged:
            raise
        return fingerprint_of_steps(sound), damaged


def fingerprint_of_steps(traces: Sequence[Path]) -> Fingerprint:
    """Fingerprint over whole steps if the traces mark them, else from the first event
    of a GPU to the last.
    """
    try:
        return fingerprint_of(traces, "steps")[0]
    except UserError as error:
        if "steps are marked" not in error.message:
            raise
    return fingerprint_of(traces)[0]


def store_fingerprint(run: RunDir) -> None:
    """Write the fingerprint of a profiled run into its directory, so that it is kept.
    Without a GPU there is none.
    """
    try:
        result = fingerprint_of_run(run)
    except UserError:
        return
    if result is not None:
        text = result.model_dump_json(indent=2, by_alias=True) + "\n"
        (run.path / FINGERPRINT).write_text(text, encoding="utf-8")


def _stored(file: Path) -> Fingerprint | None:
    """The fingerprint of a kept run, which has it in place of the traces."""
    run = RunDir(_place(file))
    if (run.path / PROFILE).is_dir():
        return None
    return run.document(FINGERPRINT, Fingerprint)


def _place(file: Path) -> Path:
    """Path of the file, or of the run called ``file``."""
    run = paths.runs_dir() / file
    if run.exists() and not file.exists():
        return run
    return kept.place(file)


def _of_run(file: Path) -> Path:
    """The folder of the traces of a run, which is named by its directory or its id; any
    other file as it is.

    UserError for a run without a profile.
    """
    run = _place(file)
    if not (run / SPEC).is_file():
        return file
    if not (run / PROFILE).is_dir():
        raise UserError(
            "the run was not profiled",
            where=str(run),
            hint="benchrun profile RECIPE records a profile",
        )
    return run / PROFILE
