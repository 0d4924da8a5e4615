"""Runs and logs as objects and pandas frames: ``benchrun.load``, ``benchrun.frame``, ``benchrun.judge``."""

import functools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchrun.app.judgement import judge_log, judge_runs
from benchrun.app.measurement import measure_run, read_logs, rows_of, setting, summarise_log
from benchrun.compare.verdict import Verdict
from benchrun.errors import UserError
from benchrun.launch.endings import recorded
from benchrun.launch.rundir import RunDir, find_runs, open_run
from benchrun.metrics.model import Measurement
from benchrun.metrics.setting import Setting, setting_of
from benchrun.metrics.setting import stated as completed
from benchrun.parse import Log
from benchrun.paths import runs_dir
from benchrun.spec.artifacts import SPEC, VERDICT
from benchrun.spec.runspec import RunSpec

if TYPE_CHECKING:
    import pandas as pd

CONDITIONS = ("recipe", "task", "framework", "gpu", "num_gpus", "precision", "seq_length", "gbs", "mbs")
"""Columns of a frame before the metrics: fields of the specification, or what a log states."""
DEGREES = ("tp", "pp", "cp", "vp", "ep", "fsdp")


@dataclass(frozen=True)
class Run:
    """One training: a launched run, a kept one, or the log of any job."""

    name: str
    """The run's id, or the path of the log."""
    spec: RunSpec | None
    """What was launched; None for a log."""
    recipe: str | None
    log: Log | None
    """Steps, facts and problems as read; None where the run has no log."""
    setting: Setting
    """GPU, batch, model: what turns step times into rates."""
    measurement: Measurement | None
    """Every number with its spread, as in metrics.json; None without a log."""
    verdict: Verdict | None
    """The stored verdict; None where the run was not judged."""
    ending: str | None
    """How the job ended; None where that is not recorded."""
    directory: RunDir | None = None

    @property
    def metrics(self) -> dict[str, float | None]:
        """Every metric by name, with its unit in it; None is what was not measured."""
        return self.measurement.metrics if self.measurement else {}

    @functools.cached_property
    def steps(self) -> "pd.DataFrame":
        """One row a step, with times and rates completed from each other; ``warmup`` marks those that do not count."""
        import pandas as pd

        if self.log is None or self.measurement is None:
            return pd.DataFrame(columns=["step", "step_time_s", "tokens_per_s_per_gpu", "loss", "warmup"])
        rows = rows_of(self.log, self.setting)
        frame = pd.DataFrame(rows._asdict()).drop(columns=["line"])
        frame["loss"] = self.log.distinct.column("loss")
        frame["warmup"] = frame.index < self.measurement.warmup_rows_dropped
        return frame

    def row(self) -> dict[str, Any]:
        """The run's row of a `frame`: name, conditions, proxy, layout, metrics, verdict, ending.

        ``proxy`` is what the model has less of than its recipe; empty for a whole model, None for a log.
        """
        stated = {"recipe": self.recipe, "framework": self.log.framework if self.log else None}
        named = {name: getattr(self.spec or self.setting, name, None) for name in CONDITIONS}
        layout = getattr(self.spec, "layout", None)
        facts = self.log.facts if self.log else None
        degrees = {name: getattr(layout or facts, name, None) for name in DEGREES}
        end = {"verdict": self.verdict.verdict if self.verdict else None, "ending": self.ending}
        conditions = {name: stated.get(name) if value is None else value for name, value in named.items()}
        reduced = getattr(self.spec, "reduced", None)
        proxy = None if reduced is None else ", ".join(map(str, reduced))
        degrees["dp"] = getattr(self.spec, "dp", None)
        return {"name": self.name, **conditions, "proxy": proxy, **degrees, **self.metrics, **end}


def load(path: str | Path, *, recipe: str | None = None, warmup: int | None = None, **stated: Any) -> Run:
    """A run directory, the id of a run in the runs folder, or the log of one job.

    ``recipe`` and ``stated`` (gpu, precision, num_gpus, seq_length, gbs) add what a log does not state itself.
    UserError for what is no run, and for a folder with the logs of several.
    """
    place = Path(path)
    if _is_run(place) or not place.exists():
        return _of_run(open_run(str(path)), warmup)
    logs, _ = read_logs([place])
    if len(logs) != 1:
        raise UserError(f"{path} has {len(logs)} runs", hint="benchrun.frame reads several")
    return _of_log(logs[0], recipe, setting(recipe, Setting(**stated)), warmup, [place])


def frame(*paths: "str | Path | Run | Iterable[str | Path | Run]", **stated: Any) -> "pd.DataFrame":
    """One row a run: every run of the runs folder, or the given runs, logs, and folders of either.

    ``stated`` are the options of `load` for logs. A metric that was not measured is NaN.
    """
    import pandas as pd

    items = paths or (runs_dir(),)
    return pd.DataFrame([run.row() for item in items for run in _runs(item, stated)]).convert_dtypes()


def judge(run: "Run | str | Path", reference: str | None = None, **stated: Any) -> Verdict:
    """The verdict on a run or log, against the published number that fits best or the one called ``reference``.

    Nothing is written. UserError for a log without a recipe, and for a run that has not ended.
    """
    chosen = run if isinstance(run, Run) else load(run, **stated)
    if chosen.directory is not None:
        return judge_runs([chosen.directory], reference=reference).verdict
    if chosen.recipe is None or chosen.log is None:
        raise UserError("a log does not name its recipe", hint="benchrun.load(path, recipe=NAME)")
    return judge_log(chosen.log, chosen.recipe, chosen.setting, None, reference)[0]


def _runs(item: "str | Path | Run | Iterable[str | Path | Run]", stated: dict[str, Any]) -> Iterator[Run]:
    if isinstance(item, Run):
        yield item
    elif not isinstance(item, (str, Path)):
        for each in item:
            yield from _runs(each, stated)
    elif Path(item).is_dir() and not _is_run(Path(item)):
        inside = find_runs(Path(item))
        if inside:
            yield from (_of_run(run, stated.get("warmup")) for run in inside)
        else:
            given = {name: value for name, value in stated.items() if name not in ("recipe", "warmup")}
            base = setting(stated.get("recipe"), Setting(**given))
            for log in read_logs([Path(item)])[0]:
                yield _of_log(log, stated.get("recipe"), base, stated.get("warmup"), [Path(item)])
    else:
        yield load(item, **stated)


def _is_run(path: Path) -> bool:
    return (path / SPEC).is_file()


def _of_run(run: RunDir, warmup: int | None) -> Run:
    verdict, end = run.document(VERDICT, Verdict), recorded(run)
    measured = measure_run(run, warmup if warmup is not None else verdict.warmup if verdict else None)
    numbers, log = (measured.metrics, measured.log) if measured else (None, None)
    ending = end.ending.value if end else None
    return Run(run.run_id, run.spec, run.spec.recipe, log, setting_of(run.spec), numbers, verdict, ending, run)


def _of_log(log: Log, recipe: str | None, given: Setting, warmup: int | None, files: list[Path]) -> Run:
    summary = summarise_log(log, given, files, warmup)
    return Run(log.file, None, recipe, log, completed(log, given), summary, None, None)
