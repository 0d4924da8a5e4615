"""The Python API: every use case of the command line as a typed function. Nothing is imported before it is used.

    from benchrun import app

    (spec,) = app.resolve(app.Request("llama3.1-8b", "H100", "fp8", 64))
    run = app.start(spec)
    app.wait(run)
    judgement = app.judge_runs([run])  # reads only
    app.store_judgement(judgement)  # writes into the run
    print(judgement.verdict.headline)

Every function raises UserError for wrong input and MachineError where Slurm or the machine fails (`benchrun.errors`).
Functions named ``store_*``, ``record_*``, ``start``, ``cancel``, ``keep`` and ``write_*`` write; all others read only.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from benchrun.app.ending import end_of as end_of
    from benchrun.app.ending import record_end as record_end
    from benchrun.app.jobs import start as start
    from benchrun.app.jobs import wait as wait
    from benchrun.app.judgement import Judgement as Judgement
    from benchrun.app.judgement import judge_runs as judge_runs
    from benchrun.app.judgement import repeats as repeats
    from benchrun.app.judgement import store_judgement as store_judgement
    from benchrun.app.keeping import keep as keep
    from benchrun.app.listing import list_points as list_points
    from benchrun.app.logs import follow as follow
    from benchrun.app.logs import read_frameworks as read_frameworks
    from benchrun.app.logs import read_logs as read_logs
    from benchrun.app.logs import rows_of as rows_of
    from benchrun.app.logs import setting as setting
    from benchrun.app.logs import summarise_log as summarise_log
    from benchrun.app.logs import unused_options as unused_options
    from benchrun.app.measurement import RunMeasurement as RunMeasurement
    from benchrun.app.measurement import measure_run as measure_run
    from benchrun.app.measurement import store_measurement as store_measurement
    from benchrun.app.one_log import judge_log as judge_log
    from benchrun.app.points import describe as describe
    from benchrun.app.points import resolve as resolve
    from benchrun.app.points import resolve_point as resolve_point
    from benchrun.app.points import warnings as warnings
    from benchrun.app.points import write_files as write_files
    from benchrun.app.runs import newest_runs as newest_runs
    from benchrun.app.runs import open_run as open_run
    from benchrun.app.runs import open_runs as open_runs
    from benchrun.app.runs import result_of as result_of
    from benchrun.app.status import RunStatus as RunStatus
    from benchrun.app.status import statuses as statuses
    from benchrun.compare.result import RunResult as RunResult
    from benchrun.compare.verdict import Verdict as Verdict
    from benchrun.launch.doctor import examine as examine
    from benchrun.launch.launcher import Observation as Observation
    from benchrun.launch.launcher import cancel as cancel
    from benchrun.launch.launcher import observe as observe
    from benchrun.launch.rundir import RunDir as RunDir
    from benchrun.metrics.model import Metrics as Metrics
    from benchrun.metrics.model import Summary as Summary
    from benchrun.metrics.setting import Setting as Setting
    from benchrun.parse import Log as Log
    from benchrun.parse import Rows as Rows
    from benchrun.parse import Step as Step
    from benchrun.recipe.select import Request as Request
    from benchrun.render import render as render
    from benchrun.spec.runspec import RunSpec as RunSpec

_MODULES = {
    "app.ending": "end_of record_end",
    "app.jobs": "start wait",
    "app.judgement": "Judgement judge_runs repeats store_judgement",
    "app.keeping": "keep",
    "app.listing": "list_points",
    "app.logs": "follow read_frameworks read_logs rows_of setting summarise_log unused_options",
    "app.measurement": "RunMeasurement measure_run store_measurement",
    "app.one_log": "judge_log",
    "app.points": "describe resolve resolve_point warnings write_files",
    "app.runs": "newest_runs open_run open_runs result_of",
    "app.status": "RunStatus statuses",
    "compare.result": "RunResult",
    "compare.verdict": "Verdict",
    "launch.doctor": "examine",
    "launch.launcher": "Observation cancel observe",
    "launch.rundir": "RunDir",
    "metrics.model": "Metrics Summary",
    "metrics.setting": "Setting",
    "parse": "Log Rows Step",
    "recipe.select": "Request",
    "render": "render",
    "spec.runspec": "RunSpec",
}
_HOME = {name: module for module, names in _MODULES.items() for name in names.split()}
__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'benchrun.app' has no attribute '{name}'")
    return getattr(import_module(f"benchrun.{_HOME[name]}"), name)
