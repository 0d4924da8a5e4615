"""The models of recipe and suite files. The name of a recipe or suite is the name of
its file.

`Recipe`, `FrameworkEntry` and `PointGroup` are what every workload has. Their other
keys are inputs of the workload (`benchrun.runspec.spec.Inputs`): merged in the order
recipe, framework, point, ``--set``, and checked afterwards. For trainings a subclass
names them.
"""

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, Field, PositiveFloat, PositiveInt, model_validator
from pydantic_core import PydanticCustomError

from benchrun import extensions
from benchrun.frameworks.registry import FRAMEWORKS
from benchrun.model import Frozen, ModelShape
from benchrun.model.layout import Layout
from benchrun.runspec.cluster import Line, Listed, OwnName, Text
from benchrun.runspec.training import Data
from benchrun.vocabulary import MOST_REPEATS, Precision, Task, flat

UNKNOWN_NAME = "unknown_name"
"""Error type of a validator whose context holds the legal names."""


def _one_of(known: Callable[[], Collection[str]], name: str) -> str:
    if name not in known():
        raise PydanticCustomError(UNKNOWN_NAME, "no such name", {"legal": tuple(known())})
    return name


FrameworkName = Annotated[Line, AfterValidator(partial(_one_of, lambda: FRAMEWORKS))]
WorkloadName = Annotated[
    Line, AfterValidator(partial(_one_of, partial(extensions.names, "workloads")))
]
Value = TypeVar("Value")
Values = Annotated[Listed[Value], Field(min_length=1)]
"""A list, or one value alone."""
Section = dict[str, Any]
"""Fields of another model: merged first (recipe, point, --set), checked afterwards."""


class FrameworkEntry(Frozen, extra="allow"):
    """Settings of one framework for this workload."""

    image: Line | None = None
    """Container image as ``registry/name:tag`` or a path; none if the worker runs on
    the host.
    """
    env: dict[OwnName, Text] = Field(default_factory=dict)
    """Environment of the ranks for this framework."""


class PointGroup(Frozen, extra="allow"):
    """Tuned points: every listed GPU, precision and framework at every listed number of
    GPUs.
    """

    gpu: Values[Line]
    """GPUs, as named in the hardware table."""
    precision: Values[Precision]
    """Precisions of the computation."""
    num_gpus: Values[PositiveInt]
    """Numbers of GPUs."""
    framework: Values[FrameworkName] | None = None
    """Frameworks that the settings are for; all of the recipe's if not given."""
    source: Line | None = None
    """Source of these settings: who published them, where, in which version."""
    ran: Values[FrameworkName] | None = None
    """Frameworks that the source ran; for others these settings are derived."""
    derived: Line | None = None
    """Reason why these settings were chosen, if they were not published."""

    @model_validator(mode="after")
    def _one_origin(self) -> "PointGroup":
        if self.source and self.derived:
            raise ValueError("a layout is either published (source) or chosen here (derived)")
        if self.ran and not self.source:
            raise ValueError("ran says which frameworks the source ran, and there is no source")
        return self

    def inputs(self, num_gpus: int) -> dict[str, tuple[tuple[str, ...], Any]]:
        """Key -> the input that it sets and its value at ``num_gpus``, of keys that are
        no input themselves.
        """
        return {}

    def sizes(self, num_gpus: int, recipe: "Recipe") -> dict[str, Any]:
        """The inputs that tell this group from others of the same GPU, precision,
        number of GPUs and framework.
        """
        return flat(self.model_extra or {})

    def scales_to(self, num_gpus: int) -> bool:
        """Whether the group holds for a number of GPUs that it does not list."""
        return False


class Recipe(Frozen, extra="allow"):
    """One workload with its frameworks and tuned points."""

    description: Line
    """One line for `benchrun list`."""
    workload: WorkloadName = "training"
    """Kind of work, which decides the other keys."""
    task: Line
    """Part of its workload that a run does."""
    env: dict[OwnName, Text] = Field(default_factory=dict)
    """Environment of the ranks for every framework."""
    frameworks: Mapping[FrameworkName, FrameworkEntry] = Field(min_length=1)
    """Frameworks and what each needs; by default the first one that has the point runs.
    """
    points: tuple[PointGroup, ...] = Field(min_length=1)
    """Tuned points, in groups that share their settings."""

    @model_validator(mode="after")
    def _points_use_its_frameworks(self) -> "Recipe":
        for group in self.points:
            for name in group.framework or ():
                if name not in self.frameworks:
                    raise ValueError(
                        f"a point is for framework {name}, which the recipe does not list"
                    )
        return self


class TrainingEntry(FrameworkEntry, extra="forbid"):
    """Settings of one framework for this training."""

    training: Section = Field(default_factory=dict)
    """Fields of Training, on top of the recipe's, below the point's."""


class TrainingGroup(PointGroup, extra="forbid"):
    """Tuned points that share a layout: every listed GPU, precision and framework at
    every listed number of GPUs.

    If several groups share all these, the first one applies, unless ``--set`` names the
    batch or sequence of another.
    """

    layout: Layout = Layout()
    """How the model is spread."""
    mbs: PositiveInt
    """Micro-batch: sequences per data-parallel rank."""
    gbs: PositiveInt | None = None
    """Global batch, the same at every number of GPUs (strong scaling)."""
    gbs_per_gpu: PositiveFloat | None = None
    """Global batch per GPU (weak scaling); may be a fraction if the global batch is
    whole.
    """
    seq_length: PositiveInt | None = None
    """Tokens per sequence, if not the recipe's."""
    image: Line | None = None
    """Container image, if not that of the framework."""
    num_layers: PositiveInt | None = None
    """Number of layers, fewer than the model has, which makes a proxy."""
    model: Section = Field(default_factory=dict)
    """Dimensions that differ from the model's: a smaller vocabulary or fewer experts (a
    proxy), or more positions.
    """
    training: Section = Field(default_factory=dict)
    """Fields of Training, on top of the framework's."""

    @model_validator(mode="after")
    def _one_batch_rule(self) -> "TrainingGroup":
        if (self.gbs is None) == (self.gbs_per_gpu is None):
            raise ValueError("give gbs or gbs_per_gpu, one of them")
        for num_gpus in self.num_gpus:
            if self.batch(num_gpus) is None:
                raise ValueError(
                    f"gbs_per_gpu {self.gbs_per_gpu:g} gives no whole batch on {num_gpus} GPUs"
                )
        return self

    def batch(self, num_gpus: int) -> int | None:
        """The global batch at ``num_gpus``; None if the rule gives no whole number of
        sequences.
        """
        if self.gbs is not None:
            return self.gbs
        total = (self.gbs_per_gpu or 0) * num_gpus
        if total >= 1 and float(total).is_integer():
            return int(total)
        return None

    def inputs(self, num_gpus: int) -> dict[str, tuple[tuple[str, ...], Any]]:
        """The batch and the number of layers."""
        return {
            "gbs_per_gpu": (("gbs",), self.batch(num_gpus)),
            "num_layers": (("model", "num_layers"), self.num_layers),
        }

    def sizes(self, num_gpus: int, recipe: Recipe) -> dict[str, Any]:
        """Batch and sequence length."""
        return {
            "gbs": self.batch(num_gpus),
            "seq_length": self.seq_length or getattr(recipe, "seq_length", None),
        }

    def scales_to(self, num_gpus: int) -> bool:
        """Weakly: not a fixed batch, nor a proxy or weights cut over all GPUs, which
        belong to its number of GPUs.
        """
        fixed = (
            self.gbs is not None
            or self.num_layers is not None
            or self.num_gpus == (self.layout.fsdp,)
        )
        return not fixed and self.batch(num_gpus) is not None


class TrainingRecipe(Recipe, extra="forbid"):
    """One training: its dimensions, its frameworks, its tuned points."""

    task: Task
    """Pretraining, full fine-tune or LoRA."""
    model: ModelShape
    """Dimensions, or the name of a file in `recipes/models/`."""
    seq_length: PositiveInt
    """Tokens per sequence."""
    training: Section = Field(default_factory=dict)
    """Fields of Training, below the framework's and the point's."""
    data: Data = Data()
    """Data that the model is fed."""
    profile: Section = Field(default_factory=dict)
    """Fields of Profile: which tool profiles which steps and ranks after the measured
    ones; by default none.
    """
    frameworks: Mapping[FrameworkName, TrainingEntry] = Field(min_length=1)
    """Frameworks and what each needs; by default the first one that has the point runs.
    """
    points: tuple[TrainingGroup, ...] = Field(min_length=1)
    """Tuned points, in groups that share a layout."""


class SuiteRun(Frozen):
    """One run of a suite or study: a point and what is set on top."""

    recipe: Line | None = None
    """Name or path of the recipe; needed unless it is a factor."""
    gpu: Line | None = None
    """GPU; needed if the recipe has points for several."""
    precision: Precision | None = None
    """Precision; needed if there are several."""
    num_gpus: PositiveInt | None = None
    """Number of GPUs; needed if there are several."""
    framework: FrameworkName | None = None
    """Framework; the recipe's first with such a point if not given."""
    set: dict[Line, Any] = Field(default_factory=dict)
    """``key: value`` as with ``--set``."""


Scalar = bool | int | float | str | None
Setting = Scalar | list[Any] | dict[str, Any]
"""A value as with ``--set``."""
Factors = dict[Line, Annotated[list[Setting], Field(min_length=1)]]
"""Key -> its values. A key is one of `SuiteRun` (``precision``), or one of ``--set``
(``training.lr``).
"""


class Study(Frozen):
    """Runs, and factors that vary each of them. A suite is a study without factors."""

    description: Line
    """One line for `benchrun list`."""
    runs: tuple[SuiteRun, ...] = Field(min_length=1)
    """The runs, in order."""
    matrix: Factors = Field(default_factory=dict)
    """Factors of which every combination is a point; the last one varies fastest."""
    zip: tuple[Annotated[Factors, Field(min_length=1)], ...] = ()
    """Groups of factors that vary together: the first values of a group, then the
    second ones, and so on.
    """
    exclude: tuple[Annotated[dict[Line, Setting], Field(min_length=1)], ...] = ()
    """Points to leave out: those with all of these values of factors."""
    baseline: dict[Line, Setting] = Field(default_factory=dict)
    """Values of factors: a point is compared with the one that has them and agrees in
    the run and the other factors; by default with the first point of its run.
    """
    repeats: Annotated[int, Field(ge=1, le=MOST_REPEATS)] = 1
    """Runs of each point."""
    price_per_gpu_hour: PositiveFloat | None = None
    """Price of a GPU for an hour, in any currency; null if it is not known."""
