"""RunSpec: one run with nothing implicit. Written as spec.json; every later step reads only this."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, Literal

from pydantic import (
    Field,
    PositiveInt,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from benchrun.errors import UserError
from benchrun.model import Frozen, ModelShape
from benchrun.model.layout import Layout
from benchrun.spec.cluster import Cluster, EnvName, Line
from benchrun.spec.data import Data
from benchrun.spec.identity import VERSION, identity, step_identity
from benchrun.spec.megatron import Megatron
from benchrun.spec.migrate import migrated
from benchrun.spec.reduction import Reduction
from benchrun.spec.training import Training
from benchrun.vocabulary import Precision, Task

DataFormat = Literal["tokens", "chat", "packed"]
"""Synthetic data: plain tokens, conversations as text, or conversations as packed sequences of tokens."""


class RunSpec(Frozen):
    """One run, resolved: the only input of rendering, launching, the worker and the comparison."""

    schema_version: Literal[2] = 2
    """Version of this file's schema."""
    recipe: Line
    """Name of the recipe."""
    task: Task
    """Pretraining, full fine-tune or LoRA."""
    proxy: bool
    """A smaller model than the recipe's: never comparable with the whole one."""
    reduced: tuple[Reduction, ...] = ()
    """Why it is a proxy: ``num_layers 1 of 126`` for each dimension that differs."""
    source: Line | None = None
    """Who published this layout, where, in which version; null for a derived one."""
    derived: Line | None = None
    """Why this layout was derived rather than published; null for a published one."""
    framework: Line
    """Name of the framework."""
    image: Line | None
    """Container image as the recipe or the site names it; null where there is none."""
    replaced_image: Line | None = None
    """The recipe's image, where the site's took its place."""
    gpu: Line
    """GPU, as named in the hardware table."""
    precision: Precision
    """Precision of training."""
    num_gpus: PositiveInt
    """Ranks: one per GPU, or CPU processes."""
    num_nodes: PositiveInt
    """Nodes of the job."""
    seq_length: PositiveInt
    """Tokens per sequence."""
    mbs: PositiveInt
    """Micro-batch: sequences that a data-parallel rank computes at once."""
    gbs: PositiveInt
    """Global batch: sequences per step, over all ranks."""
    dp: PositiveInt
    """Data-parallel ranks: num_gpus / (tp * pp * cp)."""
    num_microbatches: PositiveInt
    """Micro-batches per step: gbs / (mbs * dp)."""
    model: ModelShape
    """Dimensions of the model."""
    layout: Layout
    """How the model is spread over the GPUs."""
    training: Training
    """What a step computes."""
    data: Data
    """What the model is fed."""
    data_format: DataFormat
    """The form of synthetic data that the framework reads in this task."""
    env: dict[EnvName, str] = Field(default_factory=dict)
    """Environment of the ranks: the framework's, the recipe's, then the cluster's; later ones win."""
    replaced_env: dict[EnvName, str] = Field(default_factory=dict)
    """Values of the framework or the recipe that the cluster's variables of the same names replaced."""
    cluster: Cluster
    """Profile of the site."""
    megatron: Megatron | None = None
    """Megatron-core's arguments, computed from the other fields; null for other frameworks, and in files of 0.1."""

    @property
    def tokens_per_step(self) -> int:
        """Tokens per step, over all ranks."""
        return self.gbs * self.seq_length

    @property
    def ranks_per_node(self) -> int:
        """Ranks of a node; of a run that needs less than one node, all of them."""
        return min(self.num_gpus, self.cluster.gpus_per_node)

    @property
    def container_image(self) -> str | None:
        """The image of the ranks; None without a container."""
        return None if self.cluster.container.runtime == "none" else self.image

    @property
    def transformer_engine(self) -> bool:
        """Whether the layers of Megatron's model are transformer-engine's."""
        return self.gpu != "CPU" and self.training.transformer_impl == "transformer_engine"

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
        part, size = self.data.synthetic.model_dump(mode="json"), f"tokens{self.data.synthetic.tokens}"
        if self.instructed:
            part, size = self.data.instructions.model_dump(mode="json"), f"samples{self.data.instructions.samples}"
        if self.packed:
            part, size = {**part, "seq_length": self.seq_length}, f"seq{self.seq_length}-{size}"
        keys = {"vocab_size": self.model.vocab_size, **part}
        digest = hashlib.sha256(json.dumps(keys, sort_keys=True).encode()).hexdigest()[:8]
        return f"vocab{self.model.vocab_size}-{size}-{digest}"

    def identity(self) -> str:
        """Eight hex digits that differ when what is measured differs; the site does not count."""
        return identity(self)

    def step_identity(self) -> str:
        """The same without the number of steps."""
        return step_identity(self)

    def repeat_key(self) -> str:
        """Equal for repeats: recipe, identity, site and its environment."""
        return f"{self.recipe} {self.identity()} {self.cluster.name} {sorted(self.cluster.env.items())}"

    @model_validator(mode="before")
    @classmethod
    def _of_any_schema(cls, document: Any) -> Any:
        return migrated(document)

    @model_serializer(mode="wrap")
    def _with_identity(self, fields: SerializerFunctionWrapHandler) -> dict[str, Any]:
        stated = {"version": VERSION, "hash": identity(self)}
        return {"schema_version": self.schema_version, "identity": stated, **fields(self)}

    @classmethod
    def read(cls, path: Path) -> RunSpec:
        """Read spec.json, of this schema or an older one. UserError for a newer one."""
        try:
            return cls.model_validate_json(path.read_bytes())
        except UserError as error:
            raise UserError(error.message, hint=error.hint, where=str(path)) from None
