"""The reference store: CSV files in results/reference, one number per row; and what is
comparable under two names.
"""

import csv
import functools
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, NonNegativeFloat, PositiveFloat, ValidationError, model_validator

from benchrun import paths
from benchrun.errors import UserError
from benchrun.measure.registry import METRICS
from benchrun.model import Frozen
from benchrun.recipes import catalogue
from benchrun.recipes.schema import TrainingRecipe
from benchrun.vocabulary import Better

from .conditions import Conditions, besides_recipe, shape_of

Flag = Literal[
    "rounded",
    "floor",
    "revised",
    "proxy",
    "misprint",
    "side_misprint",
    "inferred",
    "third_party",
    "known_regression",
    "warned",
    "measured",
    "baseline",
]
Convention = Literal["full", "causal", "causal_two_thirds", "packed", "lora_packed", "own"]
"""See results/reference/README.md."""
SLOW = 0.05
"""A run is slow from this fraction below its reference on (published revisions of one
number differ by up to 6 %).
"""
FAST = 0.20
"""A run this fraction above its reference needs a look: usually it skipped work."""


class Source(Frozen):
    """Source of a published number: who, where and when."""

    who: str
    where: str
    """Repository, document and commit or tag."""
    date: str
    """Date as precise as the source states it: 2024-12, 2025-09-30."""


class Printed(Frozen):
    """Other numbers that the source prints of the same run, to check the row."""

    tokens_per_s: PositiveFloat | None = None
    """Rate of all GPUs together."""
    tokens_per_s_per_gpu: PositiveFloat | None = None
    tflops_per_gpu: PositiveFloat | None = None
    mfu_percent: PositiveFloat | None = None


class Reference(Frozen):
    """One published number."""

    id: str
    metric: str
    """Name in the registry of metrics."""
    value: PositiveFloat
    better: Better
    tolerance_low: NonNegativeFloat = SLOW
    """Fraction by which a result may be worse and still passes."""
    tolerance_high: NonNegativeFloat = FAST
    """Fraction by which a result may be better and still passes."""
    key: Conditions
    convention: Convention | None = None
    """How the FLOPs of TFLOPS and MFU are counted."""
    gflop_per_token: PositiveFloat | None = None
    """The source's own count, with convention ``own``."""
    peak_tflops: PositiveFloat | None = None
    """Peak by which the MFU is divided."""
    printed: Printed = Printed()
    source: Source
    flags: tuple[Flag, ...] = ()
    """Reason why to read it with care; see results/reference/README.md."""
    notes: str | None = None
    fit: bool = Field(default=True, exclude=True)
    """Whether the prediction may be fitted to it; column ``fit``, ``no`` or empty."""

    @property
    def band(self) -> tuple[float, float | None]:
        """The ratios to the value that pass; the upper one is None for a floor, which
        nothing exceeds by too much.
        """
        return 1 - self.tolerance_low, None if "floor" in self.flags else 1 + self.tolerance_high

    @property
    def cited(self) -> str:
        """Who published it, when, measured with what, and where it stands."""
        words = [f"{self.source.who} {self.source.date}", self.release, self.key.variant]
        return f"{', '.join(filter(None, words))}; {self.source.where}"

    @property
    def release(self) -> str | None:
        """The framework with its version, else the image."""
        version = self.key.framework_version
        if version and version[0].isdigit():
            return f"{self.key.framework} {version}"
        return version or self.key.image

    @property
    def software(self) -> str:
        """The framework, else what the source names in its place, else who published it."""
        return self.key.framework or self.release or self.source.who

    @property
    def unit(self) -> str:
        """The unit of the value."""
        return METRICS[self.metric].unit

    @property
    def tokens_per_s_per_gpu(self) -> float:
        """The rate that the value states or means; 0 for TFLOPS and MFU, and if a
        condition is not stated.
        """
        key = self.key
        if self.metric == "tokens_per_s_per_gpu":
            return self.value
        per_s = {"step_time_s": (key.gbs or 0) / self.value, "samples_per_s": self.value}.get(
            self.metric, 0.0
        )
        return per_s * (key.seq_length or 0) / (key.num_gpus or math.inf)

    @model_validator(mode="after")
    def _complete(self) -> "Reference":
        if self.metric not in METRICS:
            raise ValueError(f"metric {self.metric} is none of {', '.join(METRICS)}")
        if self.key.framework is not None and self.key.framework not in families():
            raise ValueError(
                f"framework {self.key.framework} is none of {', '.join(sorted(families()))}"
            )
        mfu = self.metric == "mfu_percent" or self.printed.mfu_percent
        if mfu and not (self.peak_tflops and self.convention):
            raise ValueError("an MFU needs its convention and peak_tflops, by which it is divided")
        if (self.convention == "own") != (self.gflop_per_token is not None):
            raise ValueError("gflop_per_token belongs to convention own, and only there")
        return self


@functools.cache
def load_references(folder: Path = paths.REFERENCE) -> tuple[Reference, ...]:
    """Every entry of every file in ``folder``. UserError names file:line of a row that
    is not one.
    """
    return tuple(entry for path in sorted(folder.glob("*.csv")) for entry in _entries(path))


def _entries(path: Path) -> Iterator[Reference]:
    with path.open(newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        for row in reader:
            where = f"{path}:{reader.line_num}"
            if None in row or None in row.values():  # csv puts surplus and missing cells there
                raise UserError(
                    f"not {len(reader.fieldnames or ())} cells, as the header has", where=where
                )
            yield _entry(row, where, f"{path.stem}:{reader.line_num}")


def _entry(row: dict[str, Any], where: str, name: str) -> Reference:
    """One row; an empty cell is what the source does not state."""
    stated = {key: value for key, value in row.items() if value not in ("", None)}
    metric = METRICS.get(stated.get("metric", ""))
    document = {
        "better": metric.better if metric else "higher",
        "id": name,
        "source": {key: stated.pop(key, None) for key in Source.model_fields},
        # The must-agree part of a key is never left out by chance: it is empty, and
        # then None.
        "key": {key: stated.pop(key, None) for key in Conditions.model_fields if key in row},
        "printed": {key: stated.pop(key) for key in Printed.model_fields if key in stated},
        "flags": tuple(stated.pop("flags", "").split()),
        **stated,
    }
    try:
        return Reference.model_validate(document)
    except ValidationError as error:
        first = error.errors()[0]
        column = ".".join(map(str, first["loc"]))
        raise UserError(
            f"column {column}: {first['msg']}" if column else first["msg"], where=where
        ) from None


def matching(own: Conditions, references: Sequence[Reference]) -> list[Reference]:
    """The entries that agree with ``own`` on every condition that must agree; an
    unstated one does not agree.

    A loss belongs to its own recipe alone: data and seeds are the recipe's.
    """
    wanted = besides_recipe(own)
    same = (entry for entry in references if besides_recipe(entry.key) == wanted)
    chosen = []
    for e in same:
        if e.key.recipe == own.recipe or (
            not e.metric.startswith("final_") and same_work(e.key, own)
        ):
            chosen.append(e)
    return chosen


def same_work(a: Conditions, b: Conditions) -> bool:
    """Whether both train one model: the same recipe, or recipes whose models have one
    shape.

    Llama 3 and Llama 3.1 differ in the positions beyond the sequence alone. Recipes of
    different tasks never train one model, whatever a log states. Adapters (lora) are
    part of a recipe and not of a shape, so such recipes are the same by name only.
    """
    if a.recipe == b.recipe:
        return True
    of_both = [shipped_recipe(each.recipe) for each in (a, b)]
    shapes = set()
    for each, recipe in zip((a, b), of_both, strict=True):
        shapes.add(each.shape or (recipe and shape_of(recipe.model)))
    tasks = {a.task, b.task, *(recipe.task for recipe in of_both if recipe)}
    return len(tasks) == 1 and "lora" not in tasks and len(shapes) == 1 and None not in shapes


@functools.cache
def shipped_recipe(name: str | None) -> TrainingRecipe | None:
    """The shipped recipe ``name`` of a training; None where there is none."""
    if name not in paths.shipped(paths.RECIPES):
        return None
    recipe = catalogue.recipe_file(name).recipe
    return recipe if isinstance(recipe, TrainingRecipe) else None


@functools.cache
def families() -> dict[str, str]:
    """Family of each framework that a reference may name."""
    return {row["framework"]: row["family"] for row in paths.table(__file__, "families.csv")}
