"""Runs and logs as objects and pandas frames: ``benchrun.load``, ``frame``,
``compare``, ``diff``.
"""

import functools
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from benchrun import extensions, kept
from benchrun.errors import BenchrunError, UserError, reading
from benchrun.jobs.endings import recorded_name
from benchrun.judge.difference import Difference
from benchrun.judge.verdict import Verdict
from benchrun.logs import Log
from benchrun.measure.model import Measurement
from benchrun.measure.setting import Setting, setting_of, setting_of_log
from benchrun.paths import runs_dir
from benchrun.rundir.artifacts import SPEC, VERDICT
from benchrun.rundir.find import find_runs, is_folder, open_run
from benchrun.rundir.folder import RunDir
from benchrun.runspec.spec import RunSpec
from benchrun.usecases.judgement import judge_log, judge_runs
from benchrun.usecases.measurement import measure_run, read_logs, rows_of, summarise_log
from benchrun.usecases.settings import check_options, completed_setting, setting_beside
from benchrun.vocabulary import DEGREES

if TYPE_CHECKING:
    import pandas as pd

CONDITIONS = (
    "recipe",
    "task",
    "framework",
    "gpu",
    "num_gpus",
    "precision",
    "seq_length",
    "gbs",
    "mbs",
)
"""Columns of a frame before the metrics: fields of the specification, or what a log
states.
"""


@dataclass(frozen=True)
class Run:
    """One training: a launched run, a kept one, or the log of any job."""

    name: str
    """The run's id, or the path of the log."""
    spec: RunSpec | None
    """Specification that was launched; None for a log."""
    recipe: str | None
    log: Log | None
    """Steps, facts and problems as read; None if the run has no log."""
    setting: Setting
    """GPU, batch, model: what turns step times into rates."""
    measurement: Measurement | None
    """Every number with its spread, as in metrics.json; None without a log."""
    verdict: Verdict | None
    """The stored verdict; None if the run was not judged."""
    ending: str | None
    """How the job ended; None if that is not recorded."""
    directory: RunDir | None = None

    @property
    def metrics(self) -> dict[str, float | None]:
        """Every metric by name, with its unit in it; None is what was not measured."""
        if not self.measurement:
            return {}
        return self.measurement.metrics

    @functools.cached_property
    def steps(self) -> "pd.DataFrame":
        """One row per step, with times and rates completed from each other; ``warmup``:
        the step does not count.
        """
        import pandas as pd

        if self.log is None or self.measurement is None:
            return pd.DataFrame(
                columns=["step", "step_time_s", "tokens_per_s_per_gpu", "loss", "warmup"]
            )
        rows = rows_of(self.log, self.setting)
        frame = pd.DataFrame(rows._asdict()).drop(columns=["line"])
        frame["loss"] = self.log.distinct.column("loss")
        frame["warmup"] = frame.index < self.measurement.warmup_rows_dropped
        return frame

    def row(self) -> dict[str, Any]:
        """The run's row of a `frame`: name, conditions, proxy, layout, metrics,
        verdict, ending.

        ``proxy`` is what the model has less of than its recipe; empty for a whole
        model, None for a log.
        """
        stated = {"recipe": self.recipe, "framework": self.log.framework if self.log else None}
        named = {}
        for name in CONDITIONS:
            named[name] = getattr(self.spec or self.setting, name, None)
        layout = getattr(self.spec, "layout", None)
        facts = None
        if self.log:
            facts = self.log.facts
        degrees = {}
        for name in (*DEGREES, "fsdp"):
            degrees[name] = getattr(layout or facts, name, None)
        end = {"verdict": self.verdict.verdict if self.verdict else None, "ending": self.ending}
        conditions = {}
        for name, value in named.items():
            conditions[name] = stated.get(name) if value is None else value
        reduced = getattr(self.spec, "reduced", None)
        proxy = None
        if reduced is not None:
            proxy = ", ".join(map(str, reduced))
        degrees["dp"] = getattr(self.spec, "dp", None)
        return {"name": self.name, **conditions, "proxy": proxy, **degrees, **self.metrics, **end}


def load(
    path: str | Path, *, recipe: str | None = None, warmup: int | None = None, **stated: Any
) -> Run:
    """A run directory, the id of a run in the runs folder, or the log of one job.

    ``recipe`` and ``stated`` (gpu, precision, num_gpus, seq_length, gbs) add what a log
    does not state itself. UserError for what is no run, and for a folder with the logs
    of several.
    """
    place = Path(path)
    with reading(path):
        here = kept.place(place)
        is_run = _is_run(here) or not here.exists()
    if is_run:
        return _of_run(open_run(str(path)), warmup)
    logs, _ = read_logs([place])
    if len(logs) != 1:
        raise UserError(f"{path} has {len(logs)} runs", hint="benchrun.frame reads several")
    return _of_log(logs[0], recipe, stated, warmup, [place])


def frame(*paths: "str | Path | Run | Iterable[str | Path | Run]", **stated: Any) -> "pd.DataFrame":
    """One row per run: every run of the runs folder, or the given runs, logs, and
    folders of either.

    ``stated`` are the options of `load` for logs. A metric that was not measured is
    NaN. A damaged run in a folder is left out with a warning that names it.
    """
    import pandas as pd

    rows = []
    for run in (run for item in paths or (runs_dir(),) for run in _runs(item, stated)):
        if isinstance(run, Run):
            rows.append(run.row())
        else:
            warnings.warn(f"left out a damaged run: {run}", stacklevel=2)
    return pd.DataFrame(rows).convert_dtypes()


def compare(
    *runs: "Run | str | Path | Iterable[Run | str | Path]",
    reference: str | None = None,
    **stated: Any,
) -> Verdict:
    """The verdict on a run, on the repeats of one point together, or on a log.

    Repeats are several arguments, or a list. They are measured against the number that
    fits best, or against ``reference`` alone: the id of a published number, a run, or a
    folder of runs. ``stated`` are the options of `load` for a log. Nothing is written.
    UserError for runs of several points, for a run that has not ended, and for a log
    without a recipe.
    """
    given: list[Any] = []
    for each in runs:
        given += [each] if isinstance(each, (Run, str, Path)) else each
    chosen = [run if isinstance(run, Run) else load(run, **stated) for run in given]
    if not chosen:
        raise UserError("no run was given")
    directories = [run.directory for run in chosen if run.directory is not None]
    if len(directories) == len(chosen):
        return judge_runs(directories, reference=reference).verdict
    if len(chosen) > 1:
        raise UserError(
            "logs are compared one by one", hint="benchrun.diff has one against another"
        )
    (log,) = chosen
    if log.recipe is None or log.log is None:
        raise UserError("a log does not name its recipe", hint="benchrun.load(path, recipe=NAME)")
    # The recipe's model, not the one made of the log's dimensions: a log states fewer.
    stated_here = replace(log.setting, model=None)
    return judge_log(log.log, log.recipe, stated_here, None, reference)[0]


def diff(a: "Run | str | Path", b: "Run | str | Path") -> Difference:
    """``b`` against ``a``: the ratio of their times with its interval, what differs, if
    the seconds went.

    UserError without a measured step.
    """
    differ = extensions.capability("explain.usecase", "differ")
    (result,) = differ([_place(a), _place(b)])
    return cast(Difference, result)


def _place(run: "Run | str | Path") -> str:
    """The directory of a run, or the file of a log."""
    if isinstance(run, Run):
        if run.directory:
            return str(run.directory.path)
        return run.name
    return str(run)


def _runs(
    item: "str | Path | Run | Iterable[str | Path | Run]", stated: dict[str, Any]
) -> Iterator[Run | BenchrunError]:
    """The runs of ``item``; for each damaged run of a folder its error."""
    if isinstance(item, Run):
        yield item
    elif not isinstance(item, (str, Path)):
        for each in item:
            yield from _runs(each, stated)
    elif is_folder(str(item)):
        inside = find_runs(Path(item))
        if inside:
            for run in inside:
                yield _readable(run, stated.get("warmup"))
        else:
            given = {}
            for name, value in stated.items():
                if name not in ("recipe", "warmup"):
                    given[name] = value
            for log in read_logs([Path(item)])[0]:
                yield _of_log(log, stated.get("recipe"), given, stated.get("warmup"), [Path(item)])
    else:
        yield load(item, **stated)


def _readable(run: RunDir, warmup: int | None) -> Run | BenchrunError:
    try:
        return _of_run(run, warmup)
    except BenchrunError as error:
        if run.run_id in str(error):
            return error
        return UserError(str(error), where=run.run_id)


def _is_run(path: Path) -> bool:
    return (path / SPEC).is_file()


def _of_run(run: RunDir, warmup: int | None) -> Run:
    """A run directory, measured anew; ``warmup`` rows are dropped, or as many as its
    verdict dropped.
    """
    verdict = run.document(VERDICT, Verdict)
    measured = measure_run(
        run, warmup if warmup is not None else verdict.warmup if verdict else None
    )
    numbers, log = (measured.metrics, measured.log) if measured else (None, None)
    given = setting_of(run.spec)
    ending = recorded_name(run)
    return Run(run.run_id, run.spec, run.spec.recipe, log, given, numbers, verdict, ending, run)


def _of_log(
    log: Log, recipe: str | None, stated: dict[str, Any], warmup: int | None, files: list[Path]
) -> Run:
    """A log, completed by what is ``stated``; a warning for each value that replaces a
    guess.
    """
    given = setting_beside(log, completed_setting(recipe, Setting(**stated)))
    for sentence in check_options(log, stated):
        warnings.warn(f"{log.file}: {sentence}", stacklevel=3)
    summary = summarise_log(log, given, files, warmup)
    return Run(log.file, None, recipe, log, setting_of_log(log, given), summary, None, None)
