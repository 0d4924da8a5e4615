"""Reading bare logs, and their numbers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchrun import hardware
from benchrun.app.measurement import samples_of
from benchrun.errors import UserError
from benchrun.frameworks.logs import DIALECTS, Tail, parse_logs
from benchrun.launch.rundir import RunDir
from benchrun.metrics.model import Summary
from benchrun.metrics.rows import Measured, measured
from benchrun.metrics.setting import Setting, stated
from benchrun.metrics.summary import summarise
from benchrun.parse import Log
from benchrun.recipe.catalogue import training_file
from benchrun.spec.artifacts import SPEC


def read_frameworks() -> list[str]:
    """Frameworks whose logs can be read."""
    return sorted(DIALECTS)


def setting(
    recipe: str | None = None,
    gpu: str | None = None,
    precision: str | None = None,
    num_gpus: int | None = None,
    seq_length: int | None = None,
    gbs: int | None = None,
) -> Setting:
    """The setting of a log, as far as its caller knows it; ``recipe`` adds its model and sequence length.

    UserError for a GPU that is not listed and for an unknown recipe.
    """
    if gpu is not None:
        listed = {name.lower(): name for name in (*hardware.names(), "CPU")}
        if gpu.lower() not in listed:
            raise UserError(f"no GPU '{gpu}' in the hardware table", hint=f"listed: {', '.join(hardware.names())}")
        gpu = listed[gpu.lower()]
    if recipe is None:
        return Setting(seq_length, gbs, num_gpus, gpu, precision)
    _, workload = training_file(recipe)
    return Setting(seq_length or workload.seq_length, gbs, num_gpus, gpu, precision, workload.model, workload.task)


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


def follow(file: Path, framework: str | None = None) -> Tail:
    """A reader of a growing log: each ``read()`` returns its new steps, ``log()`` all of it so far."""
    return Tail(file, framework)


def summarise_log(log: Log, given: Setting, files: Sequence[Path] = (), warmup: int | None = None) -> Summary:
    """Numbers of one log; what it states wins over ``given``. Of a run directory among ``files`` with its telemetry."""
    summary = summarise(log, warmup=warmup, given=given)
    run = next((path for path in files if str(path) == log.file and (path / SPEC).is_file()), None)
    samples = samples_of(RunDir(run), summary, summary.num_gpus) if run else None
    return summary.model_copy(update={"telemetry": samples.over_all}) if samples else summary


def rows_of(log: Log, given: Setting) -> Measured:
    """The step rows, with times and rates completed from each other."""
    return measured(log, stated(log, given))


def unused_options(log: Log, options: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Options, by name, that the log contradicts: the given value and the log's, which is used."""
    own = stated(log, Setting())
    values = {name: log.facts.num_layers if name == "num_layers" else getattr(own, name) for name in options}
    pairs = {name: (given, values[name]) for name, given in options.items()}
    return {name: (a, b) for name, (a, b) in pairs.items() if None not in (a, b) and str(a).lower() != str(b).lower()}
