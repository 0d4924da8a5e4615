"""The constants of the physics: their values with where they come from, read from constants.csv."""

import csv
import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

FILE = Path(__file__).with_name("constants.csv")


@dataclass(frozen=True)
class Constant:
    """One constant."""

    name: str
    value: float
    """The fitted value."""
    prior: float
    """What measurements or other sources say before the fit."""
    spread: float
    """Standard deviation of the logarithm around ``prior`` that the fit allows; 0 holds it."""
    unit: str
    source: str


@functools.cache
def table() -> dict[str, Constant]:
    """Every constant by name."""
    with FILE.open(newline="", encoding="utf-8") as file:
        return {
            row["name"]: Constant(
                row["name"], float(row["value"]), float(row["prior"]), float(row["spread"]), row["unit"], row["source"]
            )
            for row in csv.DictReader(file)
        }


@functools.cache
def fitted() -> Mapping[str, float]:
    """The values in use."""
    return {name: constant.value for name, constant in table().items()}


def store(values: Mapping[str, float]) -> None:
    """Write fitted values to constants.csv."""
    rows = list(table().values())
    with FILE.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("name", "value", "prior", "spread", "unit", "source"))
        for row in rows:
            writer.writerow(
                (row.name, f"{values[row.name]:.4g}", f"{row.prior:g}", f"{row.spread:g}", row.unit, row.source)
            )
