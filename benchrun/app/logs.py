"""Reading bare logs, and their numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchrun import hardware
from benchrun.app.measurement import samples_of
from benchrun.compare.references import load_references
from benchrun.errors import UserError
from benchrun.frameworks.logs import parse_logs
from benchrun.launch.rundir import RunDir
from benchrun.metrics.model import Summary
from benchrun.metrics.rows import Measured, measured
from benchrun.metrics.setting import Setting, stated
from benchrun.metrics.summary import summarise
from benchrun.parse import Log
from benchrun.recipe.catalogue import training_file
from benchrun.spec.artifacts import SPEC

NOTHING = Setting()
"""The setting of a log whose caller knows nothing about it."""


def setting(recipe: str | None = None, given: Setting = NOTHING) -> Setting:
    """``given`` with the model, task and sequence length of ``recipe``, and the GPU's name as benchrun spells it.

    UserError for an unknown recipe, and for a GPU that stands neither in the hardware table nor in a published number.
    """
    if given.gpu is not None:
        given = replace(given, gpu=_gpu(given.gpu))
    if recipe is None:
        return given
    _, workload = training_file(recipe)
    seq_length, model = given.seq_length or workload.seq_length, given.model or workload.model
    return replace(given, seq_length=seq_length, model=model, task=workload.task)


def _gpu(name: str) -> str:
    listed = (*hardware.names(), "CPU")
    for names in (listed, {entry.key.gpu for entry in load_references()}):
        if spelled := [gpu for gpu in names if gpu.lower() == name.lower()]:
            return spelled[0]
    raise UserError(f"no GPU '{name}' in the hardware table", hint=f"listed: {', '.join(listed)}")


def read_logs(files: Sequence[Path], framework: str | None = None) -> tuple[list[Log], list[Path]]:
    """One log for each run in these files and directories, and the files that belong to none.

    The framework is recognised where it is not named. UserError for a file that cannot be read, and for a directory of
    several runs, which would be read as one.
    """
    for path in files:
        runs = sorted(spec.parent for spec in path.glob(f"*/{SPEC}")) if path.is_dir() else []
        if len(runs) > 1:
            raise UserError(f"holds {len(runs)} runs", where=str(path), hint=f"name one of them, e.g. {runs[-1]}")
    return parse_logs(*files, framework=framework)


def summarise_log(log: Log, given: Setting, files: Sequence[Path] = (), warmup: int | None = None) -> Summary:
    """Numbers of one log; what it states wins over ``given``. Of a run directory among ``files`` with its telemetry."""
    summary = summarise(log, warmup=warmup, given=given)
    run = next((path for path in files if str(path) == log.file and (path / SPEC).is_file()), None)
    samples = samples_of(RunDir(run), log, summary, summary.num_gpus) if run else None
    return summary.model_copy(update={"telemetry": samples.over_all}) if samples else summary


def rows_of(log: Log, given: Setting) -> Measured:
    """The step rows, with times and rates completed from each other."""
    return measured(log, stated(log, given))


def unused_options(log: Log, options: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Options, by name, that the log contradicts: the given value and the log's, which is used."""
    own = stated(log, NOTHING)
    values = {name: log.facts.num_layers if name == "num_layers" else getattr(own, name) for name in options}
    pairs = {name: (given, values[name]) for name, given in options.items()}
    return {name: (a, b) for name, (a, b) in pairs.items() if None not in (a, b) and str(a).lower() != str(b).lower()}
