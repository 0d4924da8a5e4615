"""Traces of GPU runs and their fingerprints."""

from collections.abc import Sequence
from pathlib import Path

from benchrun import paths
from benchrun.errors import UserError
from benchrun.launch.nsight import export_report
from benchrun.spec.artifacts import PROFILE, SPEC
from benchrun.trace.fingerprint import fingerprint
from benchrun.trace.model import Fingerprint
from benchrun.trace.read import read_traces
from benchrun.trace.window import Choice as Choice


def fingerprint_of(files: Sequence[Path], window: Choice = "device") -> tuple[Fingerprint, list[Path]]:
    """The fingerprint of the ranks in these files, directories and runs, and the files that hold no event of a GPU.

    UserError for a file that is damaged or no trace, for a report of Nsight Systems where nsys is missing, and for a
    window that the trace cannot give.
    """
    traces, empty = read_traces([_of_run(file) for file in files], export_report)
    return fingerprint(traces, window), empty


def _of_run(file: Path) -> Path:
    """The folder of the traces of a run, which is named by its directory or its id; any other file as it is.

    UserError for a run without a profile.
    """
    run = file if file.exists() else paths.runs_dir() / file
    if not (run / SPEC).is_file():
        return file
    if not (run / PROFILE).is_dir():
        raise UserError("the run was not profiled", where=str(run), hint="benchrun profile RECIPE records a profile")
    return run / PROFILE
