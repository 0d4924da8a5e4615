"""The models of recipe and suite files. The name of a recipe or suite is the name of its file."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, PositiveFloat, PositiveInt, model_validator
from pydantic_core import PydanticCustomError

from benchrun.frameworks.registry import FRAMEWORKS
from benchrun.model import Frozen, ModelShape
from benchrun.recipe.checked import UNKNOWN_NAME
from benchrun.spec.cluster import EnvName, Line
from benchrun.spec.data import Data
from benchrun.vocabulary import Precision, Task


def _listed(value: Any) -> Any:
    return value if isinstance(value, list) else [value]


def _registered(name: str) -> str:
    if name not in FRAMEWORKS:
        raise PydanticCustomError(UNKNOWN_NAME, "no framework of this name", {"legal": tuple(FRAMEWORKS)})
    return name


FrameworkName = Annotated[Line, AfterValidator(_registered)]
Names = Annotated[tuple[Line, ...], BeforeValidator(_listed), Field(min_length=1)]
Frameworks = Annotated[tuple[FrameworkName, ...], BeforeValidator(_listed), Field(min_length=1)]
Precisions = Annotated[tuple[Precision, ...], BeforeValidator(_listed), Field(min_length=1)]
Counts = Annotated[tuple[PositiveInt, ...], BeforeValidator(_listed), Field(min_length=1)]
Section = dict[str, Any]
"""Fields of another model: merged first (recipe, point, --set), checked afterwards."""


class FrameworkEntry(Frozen):
    """What one framework needs for this workload."""

    image: Line | None = None
    """Container image as ``registry/name:tag`` or a path; none where the worker runs on the host."""
    env: dict[EnvName, str] = Field(default_factory=dict)
    """Environment of the ranks for this framework."""
    training: Section = Field(default_factory=dict)
    """Fields of Training, on top of the recipe's, below the point's."""


class PointGroup(Frozen):
    """Tuned points that share a layout: every listed GPU, precision and framework at every listed number of GPUs.

    If several groups share all these, the first one applies, unless ``--set`` names the batch or sequence of another.
    """

    gpu: Names
    """GPUs, as named in the hardware table."""
    precision: Precisions
    """Precisions of training."""
    num_gpus: Counts
    """Numbers of GPUs."""
    framework: Frameworks | None = None
    """Frameworks that the layout is for; all of the recipe's if not given."""
    layout: Section = Field(default_factory=dict)
    """How the model is spread: fields of Layout."""
    mbs: PositiveInt
    """Micro-batch: sequences per data-parallel rank."""
    gbs: PositiveInt | None = None
    """Global batch, the same at every number of GPUs (strong scaling)."""
    gbs_per_gpu: PositiveFloat | None = None
    """Global batch per GPU (weak scaling); may be a fraction if the global batch is whole."""
    seq_length: PositiveInt | None = None
    """Tokens per sequence, where not the recipe's."""
    num_layers: PositiveInt | None = None
    """Fewer layers than the model has, which makes a proxy."""
    model: Section = Field(default_factory=dict)
    """Dimensions that differ from the model's: a smaller vocabulary or fewer experts (a proxy), or more positions."""
    training: Section = Field(default_factory=dict)
    """Fields of Training, on top of the framework's."""
    source: Line | None = None
    """Who published this layout, where, in which version."""
    derived: Line | None = None
    """Why this layout was chosen, if it was not published."""

    @model_validator(mode="after")
    def _one_batch_rule(self) -> PointGroup:
        if (self.gbs is None) == (self.gbs_per_gpu is None):
            raise ValueError("give gbs or gbs_per_gpu, one of them")
        if self.source and self.derived:
            raise ValueError("a layout is either published (source) or chosen here (derived)")
        for num_gpus in self.num_gpus:
            if self.batch(num_gpus) is None:
                raise ValueError(f"gbs_per_gpu {self.gbs_per_gpu:g} gives no whole batch on {num_gpus} GPUs")
        return self

    def batch(self, num_gpus: int) -> int | None:
        """The global batch at ``num_gpus``; None where the rule gives no whole number of sequences."""
        if self.gbs is not None:
            return self.gbs
        total = (self.gbs_per_gpu or 0) * num_gpus
        return int(total) if total >= 1 and total == int(total) else None


class Recipe(Frozen):
    """One workload: its dimensions, its frameworks, its tuned points."""

    description: Line
    """One line for `benchrun list`."""
    task: Task
    """Pretraining, full fine-tune or LoRA."""
    model: ModelShape
    """Dimensions, or the name of a file in `recipes/models/`."""
    seq_length: PositiveInt
    """Tokens per sequence."""
    training: Section = Field(default_factory=dict)
    """Fields of Training, below the framework's and the point's."""
    data: Data = Data()
    """What the model is fed."""
    env: dict[EnvName, str] = Field(default_factory=dict)
    """Environment of the ranks for every framework."""
    frameworks: dict[FrameworkName, FrameworkEntry] = Field(min_length=1)
    """Frameworks and what each needs; by default the first one that has the point runs."""
    points: tuple[PointGroup, ...] = Field(min_length=1)
    """Tuned points, in groups that share a layout."""

    @model_validator(mode="after")
    def _points_use_its_frameworks(self) -> Recipe:
        for group in self.points:
            for name in group.framework or ():
                if name not in self.frameworks:
                    raise ValueError(f"a point is for framework {name}, which the recipe does not list")
        return self


class SuiteRun(Frozen):
    """One run of a suite: a point and what is set on top."""

    recipe: Line
    """Name or path of the recipe."""
    gpu: Line | None = None
    """GPU; needed where the recipe has points for several."""
    precision: Precision | None = None
    """Precision; needed where there are several."""
    num_gpus: PositiveInt | None = None
    """Number of GPUs; needed where there are several."""
    framework: FrameworkName | None = None
    """Framework; the recipe's first with such a point if not given."""
    set: dict[Line, Any] = Field(default_factory=dict)
    """``key: value`` as with ``--set``."""


class Suite(Frozen):
    """A list of runs."""

    description: Line
    """One line for `benchrun list`."""
    runs: tuple[SuiteRun, ...] = Field(min_length=1)
    """The runs, in order."""
