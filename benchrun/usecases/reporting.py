"""The report on runs: everything that is measured of them, read from their files."""

from collections.abc import Sequence
from dataclasses import replace

from benchrun.judge.verdict import RunResult, Verdict
from benchrun.rundir.find import stamp_of
from benchrun.rundir.folder import RunDir
from benchrun.show.frameworks import alike
from benchrun.show.model import ReportModel, report_model

from .measurement import fingerprint_if_readable, result_of
from .scaling import measured_scaling


def run_data(run: RunDir, verdict: Verdict | None = None, *, drawn: bool = True) -> RunResult:
    """One run with its fingerprint; if it is ``drawn``, with its log.

    ``verdict`` replaces the stored one. UserError for a damaged file. Nothing is
    written.
    """
    return replace(
        result_of(run, verdict, with_log=drawn), fingerprint=fingerprint_if_readable(run)
    )


def report_on(runs: Sequence[RunResult], *, scaling: bool = True) -> ReportModel:
    """The report on runs that `run_data` read; with their curves over the number of
    GPUs if ``scaling``.
    """
    oldest_first = sorted(runs, key=lambda run: stamp_of(run.run_id))
    return report_model(runs, measured_scaling(alike(oldest_first)) if scaling else ())
