"""Fit the constants and print how well rows that were left out are predicted: ``python
-m benchrun.capabilities.predict.fit``.

With ``--write`` constants.csv and calibration.csv are written, with ``--points`` the
rows of the second that follow from recipes. Rows: published.csv,
single_node.csv, the kept runs.
"""

import argparse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import click
import numpy as np

from benchrun import kept, paths
from benchrun.errors import UserError
from benchrun.judge.choice import rate
from benchrun.recipes import catalogue
from benchrun.recipes.resolve import resolve_point
from benchrun.runspec.spec import TrainingSpec

from . import constants, residuals, rows, runs, software
from .estimation import Index, Table
from .kinship import Array, Kinship
from .prediction import usual
from .software import MEGATRON
from .workload import Workload

SINGLE_NODE = Path(__file__).with_name("single_node.csv")
"""Layouts of small models on one node (VIA-Research/vTrain
data/ground_truth_single.csv@f8dda8473a48)."""
EVERY, KNOWN = 6, 2
"""Every n-th row of single_node.csv is fitted on; the misses of every n-th are known to
predictions."""
LONG, FAR = 0.05, 0.15
"""Share of a step from which a part is long, and a miss that is far."""
Split = tuple[Index, Index]
"""Rows that a fit knows, and rows that it predicts."""


def table() -> Table:
    """Published rows and kept runs."""
    loads = []
    step_s = []
    measured: list[runs.Measured | None] = []
    for row in [*rows.published(), *paths.table(str(SINGLE_NODE))[::EVERY]]:
        try:
            loads.append(rows.workload_of_row(row))
        except UserError:
            continue
        step_s.append(float(row["step_time_s"]))
        measured.append(None)
    for run in _kept_runs():
        loads.append(run.load)
        step_s.append(run.step_s)
        measured.append(run)
    return Table(loads, step_s, measured)


def _kept_runs() -> Iterator[runs.Measured]:
    for path in kept.runs(paths.MEASURED):
        try:
            run = runs.read(kept.place(path))
        except UserError:
            continue
        if not software.has("others", run.load.framework):
            yield run


def published_points() -> Iterator[tuple[Workload, float]]:
    """The points of recipes whose publisher is known, with all that a recipe says, and
    the step times in s that were published for exactly them."""
    for name in paths.shipped(paths.RECIPES):
        file = catalogue.recipe_file(name)
        for point in catalogue.points(file.recipe):
            spec = resolve_point(file, point, to_launch=False)
            if not isinstance(spec, TrainingSpec):
                break
            number = runs.published(spec)
            if number and number.fit and software.publisher(spec.source or spec.derived or ""):
                load = runs.workload_of_run(spec)
                yield load, load.tokens_per_s_per_gpu / rate(number)


def series(load: Workload) -> str:
    """The name that rows share which differ in layout, size and release alone."""
    return f"{load.model.name} {load.gpu.name} {load.number} {load.source} {load.stack} {load.task}"


def groups(loads: Sequence[Workload]) -> dict[str, Index]:
    """The groups of rows whose errors are printed."""
    moe = np.array([load.model.shape.moe is not None for load in loads])
    source = np.array([load.source for load in loads])
    software_and_task = np.array([f"{load.stack} {load.task}" for load in loads])
    own = source == runs.OWN
    others = ~own & (source != "vtrain-single")
    nvidia = np.isin(source, [*software.publishers().values()])
    nvidia &= software_and_task == f"{MEGATRON} pretrain"
    return {
        "dense NeMo pretraining": np.flatnonzero(~moe & nvidia),
        "all dense": np.flatnonzero(~moe & others),
        "mixture of experts": np.flatnonzero(moe & others),
        "own runs": np.flatnonzero(own),
    }


@dataclass(frozen=True)
class LeftOut:
    """Rows of a table, predicted by fits that do not know them."""

    data: Table
    median: Array
    """Logarithms of step times in s, one a row; 0 for a row that no split predicts."""
    half: Array
    """Half-widths of the intervals, logarithms."""
    components: list[tuple[str, float]]
    """The long parts of profiled steps: their name, and by how much the physics alone
    misses them."""

    def line(self, name: str, at: Index) -> str:
        """Errors of the rows ``at``: median / 90th percentile in %, coverage,
        half-width of the interval."""
        if not len(at):
            return f"{name:58} no rows"
        misses = self.median[at] - self.data.logs[at]
        errors = 100 * np.abs(np.exp(misses) - 1)
        covered = 100 * (np.abs(misses) < self.half[at])
        width = 100 * np.median(np.expm1(self.half[at]))
        return (
            f"{name:58} {len(at):4} rows  {np.median(errors):5.1f} / {np.quantile(errors, 0.9):5.1f} %   "
            f"mean {errors.mean():4.1f} %   coverage {covered.mean():3.0f} %  half-width {width:5.1f} %"
        )


def left_out(data: Table, splits: Iterable[Split]) -> LeftOut:
    """The test rows of each split, from a fit on its other rows."""
    count = len(data.loads)
    left = LeftOut(data, np.zeros(count), np.zeros(count), [])
    for train, test in splits:
        logs, doubt, spread = everything_from(data, train)
        left.median[test], left.half[test] = data.conditional(spread, logs, train, test, doubt)
        left.components.extend(data.components(logs, test, LONG))
    return left


def folds(labels: Sequence[object], count: int) -> Iterator[Split]:
    """``count`` splits that predict each row once; rows of one label stay together."""
    names, places = np.unique([*map(str, labels)], return_inverse=True)
    order = np.random.default_rng(0).permutation(len(names))
    fold_of = np.argsort(order)[places] % count
    for each in range(count):
        yield np.flatnonzero(fold_of != each), np.flatnonzero(fold_of == each)


def everything_from(data: Table, rows: Index) -> tuple[Array, Array, dict[str, float]]:
    """Constants, doubts, and the deviations of the covariance, all from ``rows``
    alone."""
    start = {}
    for name, constant in constants.constants_table().items():
        start[name.removeprefix("alike.")] = constant.prior
    logs, doubt = data.doubted(start, rows)
    spread = data.tuned(start, logs, rows, doubt, [*map(series, data.loads)])
    logs, doubt = data.doubted(spread, rows)
    return logs, doubt, spread


def report(data: Table) -> None:
    """Print the cross-validation."""
    kinds = groups(data.loads)
    every: Sequence[object] = range(len(data.loads))
    for title, named, number in (
        ("rows left out", every, 10),
        ("series left out", [*map(series, data.loads)], 20),
    ):
        left = left_out(data, folds(named, number))
        for name, at in kinds.items():
            click.echo(left.line(f"{title}: {name}", at))
        click.echo(of_components(left.components))
    size = np.array([load.num_gpus for load in data.loads])
    hopper = np.array([load.gpu.arch == "Hopper" for load in data.loads])
    dense = kinds["dense NeMo pretraining"]
    large = dense[size[dense] >= 512]
    others: dict[str, Split] = {
        "up to 128 GPUs -> 512 and more: dense NeMo": (np.flatnonzero(size <= 128), large),
        "own runs on 1 to 4 GPUs -> Hopper, 512 and more": (
            kinds["own runs"],
            large[hopper[large]],
        ),
    }
    for name, split in others.items():
        click.echo(left_out(data, [split]).line(name, split[1]))


def known_rows(data: Table, logs: Array, doubt: Array) -> Kinship:
    """The rows whose misses predictions know: those of the fit, and more layouts on one
    node."""
    misses = data.logs - data.predicted(logs)[: len(data.loads)]
    fitted = replace(data.kinship, residuals=misses, doubt=doubt)
    loads = []
    step_s = []
    for n, row in enumerate(paths.table(str(SINGLE_NODE))):
        if n % KNOWN == 0 and n % EVERY:
            loads.append(rows.workload_of_row(row))
            step_s.append(float(row["step_time_s"]))
    return fitted.joined(_missed(loads, step_s, logs))


def store_rows(known: Kinship, logs: Array, spread: Mapping[str, float]) -> None:
    """Write ``known`` rows and published points to calibration.csv."""
    loads, step_s = zip(*published_points(), strict=True)
    residuals.store_residuals(known, _missed(loads, step_s, logs), spread)


def _missed(loads: Sequence[Workload], step_s: Sequence[float], logs: Array) -> Kinship:
    """Rows that no fit reads, with the misses of the physics."""
    more = Table(loads, step_s, [None] * len(loads))
    return Kinship.of(loads, more.logs - more.predicted(logs)[: len(loads)])


def of_components(misses: Sequence[tuple[str, float]]) -> str:
    """Misses of the physics in the long parts of profiled steps."""
    by_name: dict[str, list[float]] = {}
    for name, miss in misses:
        by_name.setdefault(name, []).append(miss)
    texts = []
    for name, each in by_name.items():
        far = np.count_nonzero(np.array(each) > FAR)
        median = 100 * np.median(each)
        high = 100 * np.quantile(each, 0.9)
        texts.append(f"{name} {median:.0f} / {high:.0f} %, {far} of {len(each)} beyond {FAR:.0%}")
    return f"parts above {LONG:.0%} of a profiled step, their runs left out: " + "; ".join(texts)


def every_constant(data: Table, logs: Array, spread: Mapping[str, float]) -> dict[str, float]:
    """Every constant of constants.csv: those of the physics and the deviations."""
    values = dict(zip(data.names, np.exp(logs), strict=True))
    for name, value in spread.items():
        if f"alike.{name}" in values:
            values[f"alike.{name}"] = value
        elif name.startswith("interval."):
            values[name] = value
    return values


def write(data: Table) -> None:
    """Fit on everything and store constants and residuals."""
    every = np.arange(len(data.loads))
    logs, doubt, spread = everything_from(data, every)
    constants.store_constants(every_constant(data, logs, spread))
    store_rows(known_rows(data, logs, doubt), logs, spread)


def write_points() -> None:
    """Store the published points anew, after a change of a recipe or a reference: no
    constant changes."""
    values = constants.fitted()
    logs = np.log([values[name] for name in constants.constants_table()])
    store_rows(residuals.rows_without_points(), logs, usual().spread)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Print the cross-validation of the prediction.")
    parser.add_argument(
        "--write", action="store_true", help="fit to all rows, and store the constants"
    )
    parser.add_argument(
        "--points", action="store_true", help="store the published points of recipes anew"
    )
    arguments = parser.parse_args()
    if arguments.points:
        write_points()
    elif arguments.write:
        write(table())
    else:
        report(table())
