"""RunSpec: one run with nothing implicit. Written as spec.json; every later step reads
only this.

`RunSpec` has the fields of every workload, a subclass those of one. A user can set the
fields of its `Inputs`; the others are computed from them.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import (
    Field,
    PlainSerializer,
    PlainValidator,
    PositiveInt,
    SerializerFunctionWrapHandler,
    ValidationError,
    ValidationInfo,
    model_serializer,
    model_validator,
)

from benchrun import extensions
from benchrun.errors import UserError, closest
from benchrun.model import Frozen, ModelShape
from benchrun.model.layout import Layout, Size
from benchrun.vocabulary import LOW, Precision, Reduced, Task, in_words, reduced, reductions

from .cluster import Cluster, EnvName, Line, OwnName, Text
from .identity import VERSION, digest, training_form
from .megatron import Megatron
from .migrate import migrated
from .profile import Profile, Tool
from .site_rules import LAUNCHED
from .training import Data, Training

if TYPE_CHECKING:
    from pydantic.functional_validators import ModelWrapValidatorHandler
    from typing_extensions import Self

Reduction = Annotated[Reduced, PlainValidator(reduced), PlainSerializer(str)]
"""The type of a field that holds a reduction as text."""
DataFormat = Literal["tokens", "chat", "packed"]
"""Synthetic data: plain tokens, conversations as text, or conversations as packed
sequences of tokens.
"""


class Inputs(Frozen):
    """Inputs that a user can set in every workload; a workload adds its own fields."""

    time_limit: ClassVar[str | None] = None
    """Limit of a job whose site states none, as hours:minutes:seconds; null: the
    default of all jobs.
    """
    image: Line | None = None
    """Container image as the recipe or the site names it; null if there is none."""
    env: dict[OwnName, Text] = Field(default_factory=dict)
    """Environment of the ranks: the framework's, the recipe's, then the cluster's;
    later ones win.
    """
    cluster: Cluster
    """Profile of the site."""


class RunSpec(Inputs):
    """One run, resolved: the only input of rendering, launching, the worker and the
    comparison.
    """

    inputs: ClassVar[type[Inputs]] = Inputs
    """Inputs that a user can set in this workload."""
    reported: ClassVar[bool] = True
    """Whether tables of all runs have it."""
    stepped: ClassVar[bool] = False
    """Whether runs are compared by the time of their steps."""
    schema_version: Literal[2] = 2
    """Version of this file's schema."""
    workload: Line
    """Kind of work, which decides the other fields; files without it are of training.
    """
    recipe: Line
    """Name of the recipe."""
    task: Line
    """Part of its workload that the run does."""
    source: Line | None = None
    """Source of the point's settings: who published them, where, in which version; null
    for derived ones.
    """
    derived: Line | None = None
    """Why the settings were derived rather than published, or with which ``--set`` they
    differ from the point's.
    """
    framework: Line
    """Name of the framework."""
    replaced_image: Line | None = None
    """The recipe's image, if the site's took its place."""
    gpu: Line
    """GPU, as named in the hardware table."""
    precision: Precision
    """Precision of the computation."""
    num_gpus: PositiveInt
    """Ranks: one per GPU, or CPU processes."""
    num_nodes: PositiveInt
    """Nodes of the job."""
    replaced_env: dict[EnvName, Text] = Field(default_factory=dict)
    """Values of the framework or the recipe that the cluster's variables of the same
    names replaced.
    """

    @property
    def ranks_per_node(self) -> int:
        """Ranks of a node; of a run that needs less than one node, all of them."""
        return min(self.num_gpus, self.cluster.gpus_per_node)

    @property
    def container_image(self) -> str | None:
        """The image of the ranks; None without a container."""
        if self.cluster.container.runtime == "none":
            return None
        return self.image

    @property
    def summary(self) -> tuple[str, ...]:
        """The head of the job script, one line each: what the run computes, and its
        settings.
        """
        what = f"{self.recipe}: {self.task}, {self.precision}, {self.framework}, {self.num_gpus} x {self.gpu}"
        return what, self.settings

    @property
    def settings(self) -> str:
        """The workload's own inputs, which must agree before two numbers are compared;
        empty in training.
        """
        return in_words(self.own().items())

    @property
    def planned_steps(self) -> int | None:
        """Steps to be made; None for a workload without steps."""
        return None

    @property
    def reads_files(self) -> bool:
        """Whether the run reads data that datagen writes before it."""
        return False

    @property
    def profiler(self) -> Tool:
        """The tool that profiles steps of the run; none if no step is profiled."""
        return "none"

    def own(self) -> dict[str, Any]:
        """The workload's own inputs by name: its part of the identity."""
        names = []
        for name in self.inputs.model_fields:
            if name not in Inputs.model_fields:
                names.append(name)
        return self.inputs.model_construct(**dict(self)).model_dump(mode="json", include={*names})

    def form(self) -> dict[str, Any]:
        """The workload's part of the canonical form behind the identity."""
        return {"workload": self.workload, **self.own()}

    @classmethod
    def planned(cls, stated: Mapping[str, Any], recipe: Any, framework: Any) -> "Self":
        """The run with the fields ``stated``; a workload adds those that follow from
        them.
        """
        return cls(**stated)

    def identity(self) -> str:
        """Eight hex digits that differ when what is measured differs; the site does not
        count.
        """
        return digest(self)

    def step_identity(self) -> str:
        """Identity without the number of steps."""
        return digest(self, without=("steps",))

    def repeat_key(self) -> str:
        """Equal for repeats: recipe, identity, site and its environment."""
        return f"{self.recipe} {self.identity()} {self.cluster.name} {sorted(self.cluster.env.items())}"

    @model_validator(mode="wrap")
    @classmethod
    def _of_its_workload(
        cls, document: Any, build: "ModelWrapValidatorHandler[Self]", info: ValidationInfo
    ) -> Any:
        """Files of older schemas too; `RunSpec` itself reads the document of any
        workload.
        """
        document = migrated(document)
        if cls is RunSpec and isinstance(document, dict):
            return workload(document["workload"]).model_validate(document, context=info.context)
        return build(document)

    @model_serializer(mode="wrap")
    def _with_identity(self, fields: SerializerFunctionWrapHandler) -> dict[str, Any]:
        stated = {"version": VERSION, "hash": self.identity()}
        first = {
            "schema_version": self.schema_version,
            "workload": self.workload,
            "identity": stated,
        }
        return {**first, **fields(self)}

    @classmethod
    def read(cls, path: Path) -> "Self":
        """Read spec.json, of this schema or an older one. UserError if that cannot be
        done.
        """
        hint: str | None = f"another version wrote it, or it is damaged: move {path.parent} away"
        try:
            if not path.is_file():
                raise OSError("is no file")
            return cls.model_validate_json(path.read_bytes(), context=LAUNCHED)
        except UserError as error:  # a newer schema, or an unknown workload
            message = error.message
            hint = error.hint
        except ValidationError as error:
            first = error.errors()[0]
            message = (
                f"not a RunSpec: {'.'.join(map(str, first['loc'])) or 'the file'}: {first['msg']}"
            )
        except (OSError, ValueError, RecursionError) as error:
            message = f"cannot be read: {error}"
        raise UserError(message, hint=hint, where=path)


class TrainingInputs(Inputs):
    """Inputs of a training that a user can set."""

    model: ModelShape
    """Dimensions of the model."""
    seq_length: Size
    """Tokens per sequence."""
    mbs: Size
    """Micro-batch: sequences that a data-parallel rank computes at once."""
    gbs: Size
    """Global batch: sequences per step, over all ranks."""
    layout: Layout = Layout()
    """How the model is spread over the GPUs."""
    training: Training = Training()
    """Computation of a step."""
    data: Data = Data()
    """Data that the model is fed."""
    profile: Profile = Profile()
    """Profile of the steps after the measured ones."""


class TrainingSpec(TrainingInputs, RunSpec):
    """One training."""

    inputs = TrainingInputs
    stepped = True
    workload: Literal["training"] = "training"
    """Kind of work; files without it are of training."""
    task: Task
    """Pretraining, full fine-tune or LoRA."""
    proxy: bool
    """A smaller model than the recipe's: never comparable with the whole one."""
    reduced: tuple[Reduction, ...] = ()
    """Reason why it is a proxy: ``num_layers 1 of 126`` for each dimension that
    differs.
    """
    dp: PositiveInt
    """Data-parallel ranks: num_gpus / (tp * pp * cp)."""
    num_microbatches: PositiveInt
    """Micro-batches per step: gbs / (mbs * dp)."""
    data_format: DataFormat
    """The form of synthetic data that the framework reads in this task."""
    profiled_steps: tuple[PositiveInt, PositiveInt] | None = None
    """The first and the last profiled step, counted from 1; null if none is. All steps
    after the planned ones are left out of the measurement.
    """
    megatron: Megatron | None = None
    """Megatron-core's arguments, computed from the other fields; null for other
    frameworks, and in files of 0.1.
    """

    @classmethod
    def planned(cls, stated: Mapping[str, Any], recipe: Any, framework: Any) -> "Self":
        """Complete the specification with what follows from model, batch and layout."""
        model = stated["model"]
        layout = stated["layout"]
        mbs = stated["mbs"]
        gbs = stated["gbs"]
        cut = reductions(model, recipe.model)
        # The last label is one more token.
        read = stated["training"].steps * gbs * stated["seq_length"] + 1
        return cls(
            **{
                **stated,
                "data": stated["data"].of_tokens(read),
                **split_batch(stated["num_gpus"], layout, mbs, gbs),
            },
            proxy=bool(cut),
            reduced=cut,
            data_format=framework.data_format(stated["task"]),
            profiled_steps=framework.profiled_steps(stated["training"].steps, stated["profile"]),
        )

    @property
    def summary(self) -> tuple[str, ...]:
        """The head of the job script: the workload, and how it is divided."""
        what = super().summary[0]
        if self.proxy:
            what += f", PROXY: {', '.join(map(str, self.reduced))}"
        cut = in_words(self.layout.degrees)
        batch = f"micro-batch {self.mbs} x dp {self.dp} x {self.num_microbatches} micro-batches"
        return what, f"{cut}, dp {self.dp}; global batch {self.gbs} = {batch}"

    @property
    def settings(self) -> str:
        """Empty: `benchrun.judge.conditions` has a key for each input of a training."""
        return ""

    @property
    def planned_steps(self) -> int:
        """Optimizer steps."""
        return self.training.steps

    @property
    def profiler(self) -> Tool:
        """The tool that profiles steps after the measured ones; none if no step is
        profiled.
        """
        return self.profile.tool

    @property
    def reads_files(self) -> bool:
        """Whether the data are synthetic files rather than mock tokens."""
        return self.data.kind == "synthetic"

    def form(self) -> dict[str, Any]:
        """Everything of a training that changes the measurement."""
        return training_form(self)

    def resized(self, **sizes: Any) -> "Self":
        """Return the specification with other ``sizes`` (num_gpus, layout, mbs, gbs),
        and the micro-batches that follow from them.
        """
        all_sizes = {
            name: getattr(self, name) for name in ("num_gpus", "layout", "mbs", "gbs")
        } | sizes
        return self.model_copy(update={**sizes, **split_batch(**all_sizes)})

    @property
    def tokens_per_step(self) -> int:
        """Tokens per step, over all ranks."""
        return self.gbs * self.seq_length

    @property
    def transformer_engine(self) -> bool:
        """Whether the layers of Megatron's model are transformer-engine's."""
        return self.gpu != "CPU" and self.training.transformer_impl == "transformer_engine"

    @property
    def of_transformer_engine(self) -> list[str]:
        """Settings of the run that need transformer-engine in the worker."""
        asked = {
            f"precision {self.precision}": self.precision in LOW,
            "training.optimizer.precision_aware": self.training.optimizer.precision_aware,
            "training.cuda_graphs": self.training.cuda_graphs != "none",
            "training.swiglu": self.training.swiglu != "torch",
            "training.late_loss_scale": self.training.late_loss_scale,
            "training.tp_comm_overlap": self.training.tp_comm_overlap,
            "training.cp_comm": self.training.cp_comm != "p2p",
        }
        return [name for name, wanted in asked.items() if wanted]

    @property
    def instructed(self) -> bool:
        """Whether the synthetic data are conversations rather than tokens."""
        return self.data_format != "tokens"

    @property
    def packed(self) -> bool:
        """Whether the conversations are packed sequences of tokens rather than text."""
        return self.data_format == "packed"

    @property
    def data_set(self) -> str:
        """Name of the synthetic data set, which depends on all its parameters."""
        part = self.data.synthetic.document()
        size = f"tokens{self.data.synthetic.tokens}"
        if self.instructed:
            part = self.data.instructions.document()
            size = f"samples{self.data.instructions.samples}"
        if self.packed:
            part = {**part, "seq_length": self.seq_length}
            size = f"seq{self.seq_length}-{size}"
        keys = {"vocab_size": self.model.vocab_size, **part}
        digest = hashlib.sha256(json.dumps(keys, sort_keys=True).encode()).hexdigest()[:8]
        return f"vocab{self.model.vocab_size}-{size}-{digest}"


def split_batch(num_gpus: int, layout: Layout, mbs: int, gbs: int) -> dict[str, int]:
    """Data-parallel ranks and micro-batches per step, by the fields of `TrainingSpec`."""
    dp = layout.dp(num_gpus)
    return {"dp": dp, "num_microbatches": max(1, gbs // (mbs * dp))}


class NodesInputs(Inputs):
    """Inputs of a check of nodes that a user can set."""

    repeats: int = Field(5, ge=3)
    """Number of times that each measurement is repeated; more repeats find smaller
    differences.
    """


class NodesSpec(NodesInputs, RunSpec):
    """One check of nodes: each measures its products, its memory and its links. No
    recipe is one.
    """

    inputs = NodesInputs
    reported = False
    workload: Literal["nodes"] = "nodes"
    """Kind of work."""


def workload(name: Any) -> type[RunSpec]:
    """The class of the runs of one workload. UserError with the closest names if there
    is none.
    """
    known = extensions.names("workloads")
    if name not in known:
        raise UserError(f"no workload is called '{name}'", hint=closest(str(name), known))
    found: type[RunSpec] = extensions.load("workloads", name)
    return found
