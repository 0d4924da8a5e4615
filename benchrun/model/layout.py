"""The layout of a model on GPUs, and the base class of every pydantic model."""

import re
from collections.abc import Iterator
from typing import Annotated, Any, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator

from benchrun.vocabulary import DEGREES, LARGEST_SIZE, data_parallel

Size = Annotated[int, Field(gt=0, le=LARGEST_SIZE)]
"""A width, a number of ranks, samples or steps."""


class Frozen(BaseModel):
    """A pydantic model that refuses unknown keys and never changes: files, JSON, the
    command line."""

    # Validators are built when a model is first used: a command builds those that it
    # needs.
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    def document(self) -> dict[str, Any]:
        """The model as a JSON document."""
        return self.model_dump(mode="json")

    @field_validator("*", mode="before")
    @classmethod
    def _no_truth_for_a_number(cls, value: Any, info: ValidationInfo) -> Any:
        """``true`` is no 1, though Python says so."""
        if isinstance(value, str):
            return value
        values = value if isinstance(value, list | tuple) else (value,)
        if any(isinstance(each, bool) for each in values):
            types = [*_types(cls.model_fields[info.field_name or ""].annotation)]
            if (int in types or float in types) and bool not in types and Any not in types:
                raise ValueError("must be a number, not true or false")
        return value


def _types(annotation: Any) -> Iterator[Any]:
    """The plain types that an annotation is made of."""
    arguments = get_args(annotation)
    if not arguments:
        yield annotation
    for argument in arguments:
        yield from _types(argument)


class Layout(Frozen):
    """How the model is spread over the GPUs. tp * pp * cp * dp = number of GPUs."""

    tp: Size = 1
    """Tensor parallel."""
    pp: Size = 1
    """Pipeline parallel."""
    cp: Size = 1
    """Context parallel."""
    vp: Size = 1
    """Virtual pipeline stages per rank (1: no interleaving)."""
    ep: Size = 1
    """Expert parallel; taken out of dp * cp (and tp, if etp is smaller)."""
    etp: Size = 1
    """Tensor parallel inside an expert."""
    sequence_parallel: bool = False
    """Activations are split along the sequence if tp leaves them whole."""
    fsdp: Size = 1
    """Data-parallel ranks that share weights, gradients and optimizer states (1: every
    rank holds them whole)."""
    account_for_embedding_and_loss: bool = False
    """Embedding and output layer count as one layer each in the split of layers over
    pipeline stages."""
    stages: Annotated[str, Field(pattern=r"^([EtmL|()]|\*[0-9]{1,3})+$")] | None = None
    """The layers of each (virtual) stage, if they are not split evenly, as
    Megatron-LM writes them: E the embedding, t a layer, m a multi-token prediction, L
    the output layer; ``(tt|)*30`` repeats."""

    @property
    def gpus_per_replica(self) -> int:
        """GPUs that hold the model once: one data-parallel rank."""
        return self.tp * self.pp * self.cp

    @property
    def units(self) -> tuple[dict[str, int], ...]:
        """The degrees whose product divides the number of GPUs: of the dense ranks, and
        of the ranks of experts."""
        dense = {"tp": self.tp, "pp": self.pp, "cp": self.cp}
        return dense, {"ep": self.ep, "etp": self.etp, "pp": self.pp}

    def dp(self, num_gpus: int) -> int:
        """Data-parallel ranks on ``num_gpus``; 1 if these are too few, which is
        refused."""
        return data_parallel(num_gpus, self.gpus_per_replica)

    @property
    def degrees(self) -> list[tuple[str, int]]:
        """Name and number of each degree that every layout has, and of fsdp if the
        weights are sharded."""
        degrees = [(name, getattr(self, name)) for name in DEGREES]
        if self.fsdp > 1:
            degrees.append(("fsdp", self.fsdp))
        return degrees

    @property
    def stage_list(self) -> list[str]:
        """The letters of each (virtual) stage, in order; empty if ``stages`` is not
        stated."""
        text = self.stages or ""
        for part in (r"\(([^()]*)\)\*(\d+)", r"([EtmL|])\*(\d+)"):
            text = re.sub(part, lambda match: match[1] * int(match[2]), text)
        if not text:
            return []
        return text.split("|")
