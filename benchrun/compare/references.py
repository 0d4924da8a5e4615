"""The reference store: CSV files in results/reference, one row a number, read like code is reviewed."""

from __future__ import annotations

import csv
import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import PositiveFloat, ValidationError

from benchrun import paths
from benchrun.compare.conditions import HARD, Conditions, differences
from benchrun.errors import UserError
from benchrun.model import Frozen

Metric = Literal["step_time_s", "tokens_per_s_per_gpu", "final_loss"]
SLOW = 0.05
"""More than this much slower than a reference is slow (published revisions of one number differ by up to 6 %)."""
FAST = 0.20
"""More than this much faster needs a look: it is usually skipped work."""


class Source(Frozen):
    """Who published a number, where and when."""

    who: str
    where: str
    """Repository, document and commit or tag."""
    date: str
    """As precise as the source says: 2024-12, 2025-09-30."""


class Reference(Frozen):
    """One published number."""

    id: str
    metric: Metric
    value: PositiveFloat
    better: Literal["lower", "higher", "equal"]
    tolerance_low: float = SLOW
    """How much worse still passes, as a fraction."""
    tolerance_high: float = FAST
    """How much better still is plain, as a fraction."""
    key: Conditions
    framework_version: str | None = None
    source: Source
    flags: tuple[str, ...] = ()
    """``rounded``, ``revised``, ``misprint``, ``third-party``, ``proxy``: why to read it with care."""
    notes: str | None = None

    @property
    def unit(self) -> str:
        """The unit of the value."""
        return {"step_time_s": "s", "tokens_per_s_per_gpu": "tokens/s/GPU", "final_loss": "nats"}[self.metric]


BETTER = {"step_time_s": "lower", "tokens_per_s_per_gpu": "higher", "final_loss": "equal"}


@functools.cache
def load_references(folder: Path = paths.REFERENCE) -> tuple[Reference, ...]:
    """Every entry of every file in ``folder``. UserError names file:line of a row that is not one."""
    entries: list[Reference] = []
    for path in sorted(folder.glob("*.csv")):
        with path.open(newline="") as file:
            reader = csv.DictReader(file)
            for row in reader:
                entries.append(_entry(row, f"{path}:{reader.line_num}", f"{path.stem}:{reader.line_num}"))
    return tuple(entries)


def _entry(row: dict[str, Any], where: str, name: str) -> Reference:
    """One row; an empty cell is what the source does not say."""
    said = {key: value for key, value in row.items() if value not in ("", None)}
    source = {"who": said.pop("who", None), "where": said.pop("where", None), "date": said.pop("date", None)}
    key = {name: said.pop(name) for name in Conditions.model_fields if name in said}
    flags = tuple(said.pop("flags", "").split())
    try:
        document = {**said, "id": name, "key": key, "source": source, "flags": flags}
        return Reference.model_validate({"better": BETTER.get(said.get("metric", ""), ""), **document})
    except ValidationError as error:
        first = error.errors()[0]
        column = ".".join(str(part) for part in first["loc"])
        raise UserError(f"column {column}: {first['msg']}", where=where) from None


def matching(ours: Conditions, references: Sequence[Reference]) -> list[Reference]:
    """The entries that agree with ``ours`` on everything that must agree."""
    same = (entry for entry in references if entry.key.recipe == ours.recipe)
    return [entry for entry in same if not differences(entry.key, ours, HARD)]
