"""Traces of GPU runs and their fingerprints."""

from collections.abc import Sequence
from pathlib import Path

from benchrun.launch.nsight import export_report
from benchrun.trace.fingerprint import fingerprint
from benchrun.trace.model import Fingerprint
from benchrun.trace.read import read_traces
from benchrun.trace.window import Choice as Choice


def fingerprint_of(files: Sequence[Path], window: Choice = "device") -> tuple[Fingerprint, list[Path]]:
    """The fingerprint of the ranks in these files and directories, and the files that hold no event of a GPU.

    UserError for a file that is damaged or no trace, for a report of Nsight Systems where nsys is missing, and for a
    window that the trace cannot give.
    """
    traces, empty = read_traces(files, export_report)
    return fingerprint(traces, window), empty
