"""Correction of the physics by the rows that are similar.

calibration.csv holds one line per known row: the logarithm of observed over physics,
its weight, its traits and its place (`kinship`). The correction is the conditional mean
given all rows, the interval its spread.
"""

import csv
import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from benchrun.paths import table

from . import constants
from .kinship import (
    FAMILY,
    TRAITS,
    Array,
    Kinship,
    coded,
    covariance,
    noise,
)
from .workload import Workload

FILE = "calibration.csv"
NEIGHBOURS = 80
"""Similar rows that the interval rests on; more make it narrower by about 2 %."""
ENOUGH = 20
"""Rows of which the share inside the interval says something."""
GPU = TRAITS.index("gpu")
FAR = 2.5
"""Deviations from what the other rows say at which a row is doubted."""
LEVEL, NORMAL = 0.9, 1.645
"""Probability of the interval, and its half-width in standard deviations of a normal
distribution."""


@dataclass(frozen=True)
class Correction:
    """The logarithm of (step time / physics): its median and the half-width of its
    interval."""

    median: float
    half_width: float


def correction(load: Workload, rows: Kinship, values: Mapping[str, float]) -> Correction:
    """The correction of ``load`` by `solved` rows."""
    new = Kinship.of([load])
    alike = covariance(values, new, rows)[0]
    # Many rows are equally alike: rounding and a stable order choose the same ones on
    # every machine.
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


def doubted(known: Kinship, new: Kinship, values: Mapping[str, float]) -> Kinship:
    """Both, with factors on the noise of ``new`` rows that all others contradict: more
    than `FAR` deviations off."""
    rows = known.joined(new)
    count = len(known.doubt)
    for _ in range(3):
        inverse = np.linalg.inv(covariance(values, rows, rows) + np.diag(noise(values, rows)))
        off = np.abs(inverse @ rows.residuals) / np.sqrt(np.diag(inverse))  # leaving one out
        doubt = rows.doubt.copy()
        doubt[count:] *= np.maximum(1.0, (off[count:] / FAR) ** 2)
        rows = replace(rows, doubt=doubt)
    return rows


def untested(load: Workload) -> str | None:
    """Why the interval of ``load`` was not tested on workloads like it; None if it was.

    Tested are GPUs, dense or with experts, of which `ENOUGH` rows are known, and models
    of which any row is.
    """
    rows = stored_rows()
    own = Kinship.of([load])
    sort = "experts" if load.model.shape.moe else "dense models"
    same_gpu = int((rows.traits[:, GPU] == own.traits[0, GPU]).sum())
    if same_gpu < ENOUGH:
        return f"{same_gpu or 'no'} rows of {sort} on {load.gpu.name} are known"
    if not (rows.traits[:, FAMILY] == own.traits[0, FAMILY]).any():
        return f"no row of {load.model.name} by such software is known"
    return None


def kind(load: Workload) -> str:
    """Name of the factor on the interval: moe; the stack of dense models if
    constants.csv has it; other."""
    if load.model.shape.moe:
        return "moe"
    if f"interval.{load.stack}" in constants.constants_table():
        return load.stack
    return "other"


@functools.cache
def stored_rows() -> Kinship:
    """The rows of calibration.csv."""
    return _read(table(__file__, FILE))


def rows_without_points() -> Kinship:
    """The stored rows that are no published points of recipes."""
    return _read([row for row in table(__file__, FILE) if not row["point"]])


def _read(rows: Sequence[Mapping[str, str]]) -> Kinship:
    def texts(name: str) -> list[str]:
        return [row[name] for row in rows]

    def numbers(name: str) -> Array:
        return np.array(texts(name), dtype=np.float64)

    traits = np.array([*map(texts, TRAITS)], dtype=object).T
    kinds = np.array([stack.split() for stack in texts("stack")], dtype=object)
    places = [name for name in rows[0] if name.startswith("place")]
    return Kinship(
        traits=traits,
        codes=coded(traits),
        places=np.column_stack([*map(numbers, places)]),
        stacks=kinds[:, 0],
        moe=kinds[:, 1] == "moe",
        residuals=numbers("residual"),
        doubt=numbers("doubt"),
        weights=numbers("weight"),
    )


def store_residuals(known: Kinship, points: Kinship, values: Mapping[str, float]) -> None:
    """Write the rows of both to calibration.csv, `solved`."""
    rows = solved(doubted(known, points, values), values)
    with Path(__file__).with_name(FILE).open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        places = map("place{}".format, range(rows.places.shape[1]))
        writer.writerow(("point", "residual", "doubt", "weight", *TRAITS, *places))
        kinds = [""] * len(known.doubt) + ["yes"] * len(points.doubt)
        columns = (kinds, rows.residuals, rows.doubt, rows.weights, rows.traits, rows.places)
        for kind_, residual, doubt, weight, traits, place in zip(*columns, strict=True):
            numbers = (kind_, f"{residual:.4f}", f"{doubt:.3g}", f"{weight:.6g}")
            writer.writerow((*numbers, *traits, *map("{:.7g}".format, place)))
