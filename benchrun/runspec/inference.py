"""The workload ``inference``: a server answers the requests of a benchmark client."""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, NonNegativeInt, PositiveFloat
from typing_extensions import Self

from benchrun.model import ModelShape
from benchrun.model.layout import Size
from benchrun.rundir.artifacts import CHECKPOINT
from benchrun.vocabulary import Reduced, dimensions, reductions, request_load

from .cluster import Line, Option
from .spec import Inputs, Reduction, RunSpec

PROMPTS_PER_SLOT = 10
"""Requests for each one that is answered at a time, if their number is not stated: the
ends count for little.
"""
WARMUPS_PER_SLOT = 2


class InferenceInputs(Inputs):
    """Inputs of a benchmark of a server that a user can set."""

    time_limit = "02:00:00"
    """The largest weights (642 GB) may load for an hour."""
    model: ModelShape
    """Dimensions of the model."""
    checkpoint: Line | None = None
    """Weights and tokenizer: a name on Hugging Face, or a folder. Null: random weights,
    if the framework can.
    """
    input_tokens: Size
    """Tokens of a prompt, without those that a chat template adds."""
    output_tokens: Size
    """Tokens of an answer: the end of a sequence is ignored."""
    shortest: float = Field(default=1.0, gt=0, le=1)
    """Lengths are uniform from this share of ``input_tokens`` and ``output_tokens`` to
    the whole; 1: all are equal.
    """
    concurrency: Size | None = None
    """The most requests in flight; null: no limit."""
    request_rate: PositiveFloat | None = None
    """Requests that arrive per second, as a Poisson process; null: each as soon as
    ``concurrency`` allows.
    """
    num_prompts: Size | None = None
    """Measured requests; by default 10 for each of ``concurrency``."""
    warmups: NonNegativeInt | None = None
    """Requests before the measured ones; by default 2 for each of ``concurrency``."""
    seed: NonNegativeInt = 0
    """Seed of the lengths and tokens of the prompts."""
    slo_ttft_ms: PositiveFloat | None = None
    """Goodput counts requests whose first token comes within this time."""
    slo_tpot_ms: PositiveFloat | None = None
    """Goodput counts requests whose tokens after the first take at most this time each,
    in the mean.
    """
    slo_e2el_ms: PositiveFloat | None = None
    """Goodput counts requests that are answered within this time."""
    tp: Size = 1
    """GPUs over which a layer's products are split."""
    pp: Size = 1
    """Stages of the pipeline."""
    dp: Size = 1
    """Replicas; of a model with experts and ``ep`` above 1 only of the attention."""
    ep: Size = 1
    """GPUs over which the experts are spread: 1, or tp * dp."""
    prefix_cache: bool = False
    """Keep the keys and values of prompts: repeated prompts would then be answered from
    it.
    """
    kv_cache: Literal["auto", "fp8"] = "auto"
    """Precision of keys and values; auto: that of the model."""
    max_num_seqs: Size | None = None
    """The most requests that the server computes at once; by default ``concurrency``.
    """
    max_num_batched_tokens: Size | None = None
    """The most tokens of a forward pass; null: the server's default."""
    memory_fraction: float | None = Field(default=None, gt=0, lt=1)
    """Share of a GPU's memory for weights and cache (TensorRT-LLM: of what weights
    leave); null: the default.
    """
    stream_interval: Size | None = None
    """Tokens that the server sends at once; above 1 the inter-token latency is a time
    between chunks.
    """
    server_options: tuple[Option, ...] = ()
    """More options of the server, one word each, e.g.
    ``--attention-backend=flashinfer``; of a section of TensorRT-LLM's options file
    ``--moe_config.backend=CUTLASS``.
    """
    ready_timeout_s: Size = 3600
    """Seconds within which the server must have loaded the weights."""


class InferenceSpec(InferenceInputs, RunSpec):
    """One benchmark of a server."""

    inputs = InferenceInputs
    workload: Literal["inference"] = "inference"
    """Kind of work."""
    num_prompts: Size
    """Measured requests."""
    warmups: NonNegativeInt
    """Requests before the measured ones."""
    reduced: tuple[Reduction, ...] = ()
    """Reason why it is a proxy: ``num_layers 4 of 80`` for each dimension that differs
    from the recipe's model.
    """

    @classmethod
    def planned(cls, stated: Mapping[str, Any], recipe: Any, framework: Any) -> "Self":
        """Complete the specification with the number of requests, and what the model
        has less of than the recipe's.
        """
        slots = stated["concurrency"] or 1
        sent = stated["num_prompts"]
        warm = stated["warmups"]
        whole = ModelShape.model_validate(recipe.model_extra["model"])
        counts = {
            "num_prompts": PROMPTS_PER_SLOT * slots if sent is None else sent,
            "warmups": WARMUPS_PER_SLOT * slots if warm is None else warm,
        }
        return cls(**{**stated, **counts}, reduced=reductions(stated["model"], whole))

    def own(self) -> dict[str, Any]:
        """The inputs that change the measurement: of a checkpoint's path the last part,
        and not how long it loads.
        """
        stated = super().own()
        del stated["ready_timeout_s"]
        return stated | {
            "checkpoint": self.checkpoint and self.checkpoint.rstrip("/").rpartition("/")[2]
        }

    @property
    def proxy(self) -> bool:
        """Whether a smaller model than the recipe's is served."""
        return bool(self.reduced)

    @property
    def num_layers(self) -> int:
        """Layers, which must agree before two numbers are compared."""
        return self.model.num_layers

    @property
    def dimensions(self) -> tuple[Reduced, ...]:
        """Other sizes of which a proxy has less."""
        return dimensions(self.reduced)

    @property
    def settings(self) -> str:
        """The load of requests, which must agree before two numbers are compared;
        `request_load` writes it.
        """
        return request_load(self.model_dump())

    @property
    def summary(self) -> tuple[str, ...]:
        """The head of the job script: what is served, how it is spread, the load."""
        what = super().summary[0] + (
            f", PROXY: {', '.join(map(str, self.reduced))}" if self.reduced else ""
        )
        layout = ", ".join(f"{name} {getattr(self, name)}" for name in ("tp", "pp", "dp", "ep"))
        return (
            what,
            f"{layout}; {self.settings}; {self.num_prompts} requests after {self.warmups} to warm up",
        )

    @property
    def weights(self) -> str:
        """Path that the server loads: the checkpoint, or the folder in which the job
        writes random weights.
        """
        return self.checkpoint or CHECKPOINT

    @property
    def most_seqs(self) -> int:
        """The most requests that the server computes at once."""
        return self.max_num_seqs or self.concurrency or self.num_prompts

    @property
    def goodput(self) -> dict[str, float]:
        """Limits in ms by the name that vLLM's client gives the latency; empty if none
        is set.
        """
        limits = {"ttft": self.slo_ttft_ms, "tpot": self.slo_tpot_ms, "e2el": self.slo_e2el_ms}
        return {name: limit for name, limit in limits.items() if limit is not None}
