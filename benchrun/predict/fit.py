"""Fit the constants and print how well rows that were left out are predicted: ``python -m benchrun.predict.fit``.

With ``--write`` constants.csv and calibration.csv are written. Rows: published.csv and the kept runs.
"""

import argparse
import csv
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from benchrun import paths
from benchrun.errors import UserError
from benchrun.predict import constants, residuals, rows, runs, software
from benchrun.predict.estimation import Index, Table
from benchrun.predict.kinship import Array, Kinship
from benchrun.predict.prediction import Calibration, predict
from benchrun.predict.software import MEGATRON
from benchrun.predict.workload import Workload

SINGLE_NODE = Path(__file__).with_name("single_node.csv")
"""Layouts of small models on one node (VIA-Research/vTrain data/ground_truth_single.csv@f8dda8473a48)."""
EVERY, KNOWN = 6, 2
"""Every n-th row of single_node.csv is fitted on; the misses of every n-th are known to predictions."""
FOLDS = {"rows left out": 10, "series left out": 20}
LONG, FAR = 0.05, 0.15
"""Share of a step from which a part is long, and a miss that is far."""


def say(text: str) -> None:
    """Print one line."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def table() -> Table:
    """Published rows and kept runs."""
    loads: list[Workload] = []
    step_s: list[float] = []
    with (
        rows.PUBLISHED.open(newline="", encoding="utf-8") as file,
        SINGLE_NODE.open(newline="", encoding="utf-8") as layouts,
    ):
        for row in (*csv.DictReader(file), *list(csv.DictReader(layouts))[::EVERY]):
            try:
                load, observed = rows.workload(row), rows.observed(row)
            except UserError:
                continue
            if observed:
                loads.append(load)
                step_s.append(observed)
    own: list[runs.Measured] = []
    for folder in sorted(paths.measured().iterdir(), key=lambda path: path.name):
        if folder.is_dir():
            try:
                run = runs.read(folder)
            except UserError:
                continue
            if software.is_fitted(run.load.framework):
                own.append(run)
    profiled = [*(None for _ in loads), *own]
    loads += [run.load for run in own]
    return Table(loads, [*step_s, *(run.step_s for run in own)], profiled)


def series(load: Workload) -> str:
    """Rows that differ in layout, size and release alone."""
    return f"{load.model.name} {load.gpu.name} {load.number} {load.source} {load.stack} {load.task}"


def groups(loads: Sequence[Workload]) -> dict[str, Index]:
    """The groups of rows whose errors are printed."""
    moe = np.array([load.model.shape.moe is not None for load in loads])
    nemo = [
        load.source in software.publishers() and load.stack == MEGATRON and load.task == "pretrain" for load in loads
    ]
    published = np.array([load.source not in (runs.OWN, "vtrain-single") for load in loads])
    own = np.array([load.source == runs.OWN for load in loads])
    return {
        "dense NeMo pretraining": np.flatnonzero(np.array(nemo) & ~moe),
        "all dense": np.flatnonzero(published & ~moe),
        "mixture of experts": np.flatnonzero(published & moe),
        "own runs": np.flatnonzero(own),
    }


def line(name: str, data: Table, at: Index, median: Array, half: Array) -> str:
    """Errors of step time of the rows ``at``: median / 90th percentile in %, coverage, half-width of the interval."""
    if not len(at):
        return f"{name:58} no rows"
    errors = np.abs(np.exp(median[at] - data.logs[at]) - 1)
    covered = np.abs(median[at] - data.logs[at]) < half[at]
    return (
        f"{name:58} {len(at):4} rows  {100 * np.median(errors):5.1f} / {100 * np.quantile(errors, 0.9):5.1f} %   "
        f"mean {100 * errors.mean():4.1f} %   "
        f"coverage {100 * covered.mean():3.0f} %  half-width {100 * np.median(np.expm1(half[at])):5.1f} %"
    )


@dataclass(frozen=True)
class LeftOut:
    """Every row of a table, from fits without the rows of its fold."""

    median: Array
    half: Array
    components: list[tuple[str, float]]
    """The long parts of profiled steps: their name, and by how much the physics alone misses them."""


def left_out(data: Table, labels: Iterable[object], count: int) -> LeftOut:
    """The rows of ``data`` in ``count`` folds; those of one label stay together."""
    names = [str(label) for label in labels]
    order = np.random.default_rng(0).permutation(sorted(set(names)))
    fold = {name: index % count for index, name in enumerate(order)}
    folds = np.array([fold[name] for name in names])
    median, half, components = np.zeros(len(names)), np.zeros(len(names)), []
    for each in range(count):
        test, train = np.flatnonzero(folds == each), np.flatnonzero(folds != each)
        logs, doubt, spread = everything_from(data, train)
        median[test], half[test] = data.conditional(spread, logs, train, test, doubt)
        components += data.components(logs, test, LONG)
    return LeftOut(median, half, components)


def transferred(data: Table, train: Index, test: Index) -> tuple[Array, Array]:
    """Medians and half-widths of ``test`` from a fit on ``train`` alone."""
    logs, doubt, spread = everything_from(data, train)
    return data.conditional(spread, logs, train, test, doubt)


def everything_from(data: Table, rows: Index) -> tuple[Array, Array, dict[str, float]]:
    """Constants, doubts, and the deviations of the covariance, all from ``rows`` alone."""
    start = {name.removeprefix("alike."): constant.prior for name, constant in constants.table().items()}
    logs, doubt = data.doubted(start, rows)
    spread = data.tuned(start, logs, rows, doubt, [series(load) for load in data.loads])
    logs, doubt = data.doubted(spread, rows)
    return logs, doubt, spread


def report(data: Table) -> None:
    """Print the cross-validation."""
    kinds = groups(data.loads)
    for title, labels in (("rows left out", range(len(data.loads))), ("series left out", map(series, data.loads))):
        left = left_out(data, labels, FOLDS[title])
        for name, at in kinds.items():
            say(line(f"{title}: {name}", data, at, left.median, left.half))
        say(of_components(left.components))
    own, dense = kinds["own runs"], kinds["dense NeMo pretraining"]
    size = np.array([load.num_gpus for load in data.loads])
    hopper = np.array([load.gpu.arch == "Hopper" for load in data.loads])
    large = dense[size[dense] >= 512]
    some = np.flatnonzero(size <= 128)
    hopper_large = large[hopper[large]]
    for name, train, test in (
        ("up to 128 GPUs -> 512 and more: dense NeMo", some, large),
        ("own runs on 1 to 4 GPUs -> Hopper, 512 and more", own, hopper_large),
    ):
        median, half = np.zeros(len(size)), np.zeros(len(size))
        median[test], half[test] = transferred(data, train, test)
        say(line(name, data, test, median, half))
    say(strong_scaling(data))
    korthikanti = np.flatnonzero([load.source == "korthikanti" for load in data.loads])
    median, half = np.zeros(len(size)), np.zeros(len(size))
    for row in korthikanti:
        median[[row]], half[[row]] = transferred(data, np.delete(np.arange(len(size)), row), np.array([row]))
    say(line("A100 rows of Korthikanti, each left out", data, korthikanti, median, half))
    say(ranking(data))


def known_rows(data: Table, logs: Array, doubt: Array, spread: Mapping[str, float]) -> Kinship:
    """The `solved` rows whose misses predictions know: those of the fit, and more layouts on one node."""
    fitted = replace(data.kinship, residuals=data.logs - data.predicted(logs)[: len(data.loads)], doubt=doubt)
    with SINGLE_NODE.open(newline="", encoding="utf-8") as file:
        more = [row for n, row in enumerate(csv.DictReader(file)) if n % KNOWN == 0 and n % EVERY]
    table = Table([rows.workload(row) for row in more], [float(row["step_time_s"]) for row in more], [None] * len(more))
    every = fitted.joined(Kinship.of(table.loads, table.logs - table.predicted(logs)[: len(more)]))
    return residuals.solved(every, spread)


def ranking(data: Table) -> str:
    """How well layouts of one model on one node are ranked that predictions do not know."""
    logs, doubt, spread = everything_from(data, np.arange(len(data.loads)))
    calibration = Calibration(every_constant(data, logs, spread), known_rows(data, logs, doubt, spread))
    points: dict[tuple[str, ...], list[tuple[float, float]]] = {}
    with SINGLE_NODE.open(newline="", encoding="utf-8") as file:
        for row in list(csv.DictReader(file))[1::KNOWN]:
            key = tuple(row[name] for name in ("num_gpus", "gbs", "hidden", "layers"))
            median = predict(rows.workload(row), calibration).median
            points.setdefault(key, []).append((median, float(row["step_time_s"])))
    ranks, losses = [], []
    for pairs in points.values():
        if len(pairs) >= 4:
            predicted, measured = np.array(pairs).T
            places = [np.argsort(np.argsort(each)) for each in (predicted, measured)]
            ranks.append(np.corrcoef(places[0], places[1])[0, 1])
            losses.append(measured[predicted.argmin()] / measured.min() - 1)
    return (
        f"layouts on one node, {len(ranks)} models and batches: Spearman mean {np.mean(ranks):.2f}, median "
        f"{np.median(ranks):.2f}; the chosen one slower than the best by {100 * np.median(losses):.1f} / "
        f"{100 * np.quantile(losses, 0.9):.1f} %"
    )


def of_components(misses: Sequence[tuple[str, float]]) -> str:
    """How far the parts of profiled steps lie from the physics, where they are long."""
    by_name: dict[str, list[float]] = {}
    for name, miss in misses:
        by_name.setdefault(name, []).append(miss)
    texts = (
        f"{name} {100 * np.median(each):.0f} / {100 * np.quantile(each, 0.9):.0f} %, "
        f"{sum(miss > FAR for miss in each)} of {len(each)} beyond {FAR:.0%}"
        for name, each in by_name.items()
    )
    return f"parts above {LONG:.0%} of a profiled step, their runs left out: " + "; ".join(texts)


def strong_scaling(data: Table) -> str:
    """Rows of one series and batch: from the smallest number of GPUs alone to the others."""
    kinds = groups(data.loads)["all dense"]
    families: dict[object, list[int]] = {}
    for i in kinds:
        load = data.loads[i]
        families.setdefault(
            (series(load), load.gbs, load.seq_length, load.model.shape.num_layers, load.release), []
        ).append(i)
    median, half = np.zeros(len(data.loads)), np.zeros(len(data.loads))
    tested = []
    for name, members in families.items():
        sizes = {data.loads[i].num_gpus for i in members}
        if len(sizes) < 2:
            continue
        first = [i for i in members if data.loads[i].num_gpus == min(sizes)][:1]
        rest = np.array([i for i in members if data.loads[i].num_gpus > min(sizes)])
        other = [i for i in range(len(data.loads)) if series(data.loads[i]) != name[0]]  # type: ignore[index]
        median[rest], half[rest] = transferred(data, np.array(sorted(other + first)), rest)
        tested += rest.tolist()
    return line("strong scaling, anchored on one small run", data, np.array(tested, dtype=int), median, half)


def every_constant(data: Table, logs: Array, spread: Mapping[str, float]) -> dict[str, float]:
    """Every constant of constants.csv: those of the physics and the deviations."""
    values = dict(zip(data.names, np.exp(logs), strict=True))
    deviations = {f"alike.{name}": value for name, value in spread.items() if f"alike.{name}" in values}
    return values | deviations | {name: value for name, value in spread.items() if name.startswith("interval.")}


def write(data: Table) -> None:
    """Fit on everything and store constants and residuals."""
    every = np.arange(len(data.loads))
    logs, doubt, spread = everything_from(data, every)
    constants.store(every_constant(data, logs, spread))
    residuals.store(known_rows(data, logs, doubt, spread))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Print the cross-validation of the prediction.")
    parser.add_argument("--write", action="store_true", help="fit to all rows, and store the constants")
    arguments = parser.parse_args()
    everything = table()
    if arguments.write:
        write(everything)
    else:
        report(everything)
