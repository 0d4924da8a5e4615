"""Keeping what a run measured, without the names and paths of its machine."""

from __future__ import annotations

import shutil
from pathlib import Path

from benchrun.app.measurement import measure_run, store_measurement
from benchrun.app.runs import document_of
from benchrun.compare.verdict import Verdict
from benchrun.errors import UserError
from benchrun.launch.keep import kept_files, kept_name, write_kept
from benchrun.launch.rundir import RunDir
from benchrun.spec.artifacts import VERDICT


def keep(run: RunDir, folder: Path) -> RunDir:
    """Write a judged run's measurement into ``folder``, redacted; returns the kept run.

    UserError where the run has no valid verdict, where it is kept already, and where the redacted files would give
    other numbers.
    """
    verdict = document_of(run, VERDICT, Verdict)
    if verdict is None or verdict.verdict == "invalid_run":
        why = "was not judged" if verdict is None else f"measured nothing: {verdict.reason}"
        raise UserError(f"{run.run_id} {why}", hint=f"benchrun compare {run.run_id}")
    measurement = measure_run(run, verdict.warmup)
    if measurement:
        store_measurement(measurement)
    kept = write_kept(folder, kept_name(run), kept_files(run))
    again = measure_run(kept, verdict.warmup)
    if (again and again.metrics) != (measurement and measurement.metrics):
        shutil.rmtree(kept.path)
        raise UserError(f"{run.run_id}: without this machine's names and paths its log gives other numbers")
    return kept
