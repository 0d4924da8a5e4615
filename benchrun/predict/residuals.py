"""What the physics missed of similar rows, and what it will therefore miss of a new one.

calibration.csv holds one line per known row: its traits and its place (`kinship`), the logarithm of observed over
physics, and its weight. The correction is the conditional mean given all rows, the interval its spread.
"""

import csv
import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from benchrun.predict import constants
from benchrun.predict.kinship import Array, Kinship, coded, covariance, noise
from benchrun.predict.workload import Workload

FILE = Path(__file__).with_name("calibration.csv")
NEIGHBOURS = 80
"""Similar rows that the interval rests on; more make it narrower by about 2 %."""
LEVEL, NORMAL = 0.9, 1.645
"""Probability of the interval, and its half-width in standard deviations of a normal distribution."""


@dataclass(frozen=True)
class Correction:
    """The logarithm of (step time / physics): its median and the half-width of its interval."""

    median: float
    half_width: float


def correction(load: Workload, rows: Kinship, values: Mapping[str, float]) -> Correction:
    """What `solved` rows say about ``load``."""
    new = Kinship.of([load])
    alike = covariance(values, new, rows)[0]
    # Many rows are equally alike: rounding and a stable order choose the same ones on every machine.
    near = np.argsort(-alike.round(9), kind="stable")[:NEIGHBOURS]
    likest = rows.part(near)
    among = covariance(values, likest, likest) + np.diag(noise(values, likest))
    own = covariance(values, new, new)[0, 0] + noise(values, new)[0]
    variance = max(float(own - alike[near] @ np.linalg.solve(among, alike[near])), 0.0)
    wider = values[f"interval.{kind(load)}"]
    return Correction(float(alike @ rows.weights), float(wider * NORMAL * np.sqrt(variance)))


def solved(rows: Kinship, values: Mapping[str, float]) -> Kinship:
    """``rows`` with their weights. It takes as long as hundreds of predictions."""
    among = covariance(values, rows, rows) + np.diag(noise(values, rows))
    weights = np.asarray(np.linalg.solve(among, rows.residuals), dtype=np.float64)
    return replace(rows, weights=weights)


def kind(load: Workload) -> str:
    """Rows whose intervals are widened alike: experts; dense models of a software that constants.csv names; others."""
    if load.model.shape.moe:
        return "moe"
    return load.stack if f"interval.{load.stack}" in constants.table() else "other"


@functools.cache
def stored_rows() -> Kinship:
    """The rows of calibration.csv."""
    with FILE.open(newline="", encoding="utf-8") as file:
        reader = csv.reader(file)
        header = next(reader)
        rows = list(reader)
    first = header.index("place0")
    numbers = header.index("weight") + 1
    names, places = header[numbers:first], np.array([[float(cell) for cell in row[first:]] for row in rows])
    traits = [dict(zip(names, row[numbers:first], strict=True)) for row in rows]
    return Kinship(
        traits=traits,
        codes=coded(traits),
        places=places,
        stacks=[row[1] for row in rows],
        moe=np.array([row[0] == "1" for row in rows]),
        residuals=np.array([float(row[2]) for row in rows]),
        doubt=np.array([float(row[3]) for row in rows]),
        weights=np.array([float(row[4]) for row in rows]),
    )


def store(rows: Kinship) -> None:
    """Write `solved` rows to calibration.csv."""
    with FILE.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        places = [f"place{index}" for index in range(rows.places.shape[1])]
        writer.writerow(("moe", "stack", "residual", "doubt", "weight", *rows.traits[0], *places))
        for index, traits in enumerate(rows.traits):
            place = (f"{value:.7g}" for value in rows.places[index])
            head = (
                int(rows.moe[index]),
                rows.stacks[index],
                f"{rows.residuals[index]:.4f}",
                f"{rows.doubt[index]:.3g}",
                f"{rows.weights[index]:.6g}",
            )
            writer.writerow((*head, *traits.values(), *place))


def with_runs(rows: Kinship, loads: Sequence[Workload], residuals: Array, values: Mapping[str, float]) -> Kinship:
    """``rows`` and a site's own runs, `solved`."""
    return solved(rows.joined(Kinship.of(loads, residuals)), values)
