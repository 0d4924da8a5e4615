"""A registry of predictions, made before anyone measures: a JSON line each, whose hash
covers the line before, so that no line can be changed, removed or put between later."""

import fcntl
import hashlib
import json
from collections.abc import Sequence
from datetime import datetime, timezone
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

from benchrun import __version__, clock
from benchrun.errors import UserError, reading, writing
from benchrun.jobs.launcher import commit
from benchrun.judge.measured import MeasuredRun, load_measured
from benchrun.model import Frozen
from benchrun.rundir.find import find_runs
from benchrun.runspec.identity import canonical
from benchrun.show.table import Table
from benchrun.usecases.baselines import measured

from .residuals import LEVEL
from .usecase import Predicted

HASH = ', "hash": "'
"""Stands between what is hashed of a line and its hash, the SHA-256 of the hash before
and of that text."""
KNOWN = ("registered", "point", "low_s", "expected_s", "high_s")
MEASURED = ("measured_s", "error_percent", "inside", "run")


class Registered(Frozen):
    """One line of a registry."""

    schema_version: Literal[1] = 1
    time: str
    """UTC, as in the ids of runs."""
    benchrun: str
    commit: str | None
    recipe: str
    point: str
    identity: str
    """Identity of the run without the number of its steps."""
    form: dict[str, Any]
    """What the identity is of: all that changes the measurement, without usual values."""
    low_s: float
    expected_s: float
    high_s: float
    interval: float
    calibration: str
    hash: str = ""


def registered(path: Path) -> list[Registered]:
    """The lines of a registry. UserError if it was changed."""
    with reading(path):
        return _lines(path, path.read_text(encoding="utf-8", errors="replace"))


def register(path: Path, predictions: Sequence[Predicted]) -> str:
    """Append predictions to a registry; returns the hash of its last line. UserError if
    it was changed."""
    now = datetime.fromtimestamp(clock.now(), timezone.utc).strftime("%Y%m%dT%H%M%SZ")
    with writing(path), path.open("a+", encoding="utf-8", errors="replace") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        lines = _lines(path, file.read())
        last = lines[-1].hash if lines else ""
        for each in predictions:
            text = json.dumps(_line(each, now).document()).partition(HASH)[0]
            last = _hash(last, text)
            file.write(f'{text}{HASH}{last}"}}\n')
    return last


def _line(each: Predicted, now: str) -> Registered:
    spec, one = each.spec, each.prediction
    form = canonical(spec)
    del form["steps"]
    gpus = f"{spec.num_gpus} GPU{'s' * (spec.num_gpus > 1)}"
    return Registered(
        time=now,
        benchrun=__version__,
        commit=commit(),
        recipe=spec.recipe,
        point=f"{each.title}, {gpus}, batch {spec.gbs}, sequence {spec.seq_length}",
        identity=spec.step_identity(),
        form=form,
        low_s=one.low,
        expected_s=one.median,
        high_s=one.high,
        interval=LEVEL,
        calibration=one.calibration,
    )


def _lines(path: Path, text: str) -> list[Registered]:
    found: list[Registered] = []
    last = ""
    for number, line in enumerate(text.splitlines(keepends=True), 1):
        last = _hash(last, line.rpartition(HASH)[0])
        try:
            entry = Registered.model_validate_json(line)
        except ValueError:
            entry = None
        if entry is None or entry.hash != last or line[-1] != "\n":
            raise UserError(
                "changed since it was registered: its hash is not that of this line and those before",
                where=f"{path}:{number}",
                hint="get the file again from where it was published",
            )
        found.append(entry)
    for number, (before, entry) in enumerate(pairwise(found), 2):
        if entry.time < before.time:
            raise UserError(
                f"registered at {entry.time}, before the line above", where=f"{path}:{number}"
            )
    return found


def _hash(before: str, text: str) -> str:
    return hashlib.sha256((before + text).encode()).hexdigest()


def held(lines: Sequence[Registered]) -> Table:
    """Each registered prediction against every kept run and every run of the runs
    folder that measures the same and began afterwards."""
    wanted = {line.identity for line in lines}
    own = [run for run in find_runs() if run.spec.step_identity() in wanted]
    runs = {run.name: run for run in (*load_measured(), *measured(own))}
    rows = []
    for line in lines:
        known = (line.time, line.point, line.low_s, line.expected_s, line.high_s)
        same = [run for run in runs.values() if run.spec.step_identity() == line.identity]
        for run in same:
            rows.append((*known, *_against(line, run)))
        if not same:
            rows.append((*known, None, None, None, None))
    return Table((*KNOWN, *MEASURED), rows, missing="-")


def _against(line: Registered, run: MeasuredRun) -> tuple[Any, ...]:
    """Measured seconds, error in percent, whether they lie inside, the run."""
    step = run.metrics.step_time_s
    if step is None:
        return (None, None, "no step time", run.name)
    if run.launched < line.time:
        return (None, None, "refused: began before", run.name)
    step_s = step.median
    inside = "yes" if line.low_s <= step_s <= line.high_s else "no"
    return (step_s, 100 * (line.expected_s / step_s - 1), inside, run.name)
