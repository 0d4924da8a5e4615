"""The constants of the physics: their values with where they come from, read from
constants.csv."""

import csv
import functools
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path

from benchrun import paths


@dataclass(frozen=True)
class Constant:
    """One constant."""

    name: str
    value: float
    """The fitted value."""
    prior: float
    """Value before the fit, from measurements or other sources."""
    spread: float
    """Standard deviation of the logarithm around ``prior`` that the fit allows; 0 holds
    it."""
    unit: str
    source: str


@functools.cache
def constants_table() -> dict[str, Constant]:
    """Every constant by name."""
    constants = {}
    for row in paths.table(__file__):
        numbers = (float(row["value"]), float(row["prior"]), float(row["spread"]))
        constants[row["name"]] = Constant(row["name"], *numbers, row["unit"], row["source"])
    return constants


@functools.cache
def fitted() -> Mapping[str, float]:
    """The values in use."""
    return {name: constant.value for name, constant in constants_table().items()}


def store_constants(values: Mapping[str, float]) -> None:
    """Write fitted values to constants.csv."""
    rows = list(constants_table().values())
    with Path(__file__).with_suffix(".csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(field.name for field in fields(Constant))
        for row in rows:
            numbers = (f"{values[row.name]:.4g}", f"{row.prior:g}", f"{row.spread:g}")
            writer.writerow((row.name, *numbers, row.unit, row.source))
