"""RunSpec: one run with nothing implicit. Written as spec.json; every later step reads only this."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    ConfigDict,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from benchrun.errors import UserError
from benchrun.model import Frozen, ModelShape
from benchrun.recipe.cluster import Cluster, EnvName, Line
from benchrun.recipe.identity import VERSION, identity, step_identity
from benchrun.recipe.migrate import migrated

Framework = Literal["megatron-core", "megatron-lm", "nemo1", "nemo2", "megatron-bridge", "hf", "maxtext", "paxml"]
Precision = Literal["fp32", "bf16", "fp8"]
Task = Literal["pretrain", "sft", "lora"]
StatePrecision = Literal["fp32", "bf16", "fp16"]


class Layout(Frozen):
    """How the model is spread over the GPUs. tp * pp * cp * dp = number of GPUs."""

    tp: PositiveInt = 1
    """Tensor parallel."""
    pp: PositiveInt = 1
    """Pipeline parallel."""
    cp: PositiveInt = 1
    """Context parallel."""
    vp: PositiveInt = 1
    """Virtual pipeline stages a rank (1: no interleaving)."""
    ep: PositiveInt = 1
    """Expert parallel; taken out of dp * cp (and tp, where etp is smaller)."""
    etp: PositiveInt = 1
    """Tensor parallel inside an expert."""
    sequence_parallel: bool = False
    """Split activations along the sequence in the parts that tp leaves whole."""
    fsdp: PositiveInt = 1
    """Weights, gradients and optimizer states cut over so many data-parallel ranks (1: every rank holds them whole)."""
    account_for_embedding_and_loss: bool = False
    """Embedding and output layer count as one layer each when layers are dealt out to the stages of a pipeline."""


class Recompute(Frozen):
    """Activations thrown away in the forward pass and computed again in the backward pass."""

    granularity: Literal["none", "selective", "full"] = "none"
    method: Literal["uniform", "block"] | None = None
    """Only with ``full``."""
    num_layers: PositiveInt | None = None
    """Layers a unit (uniform) or a virtual stage (block); only with ``full``."""
    modules: tuple[Literal["core_attn", "layernorm", "mlp", "moe", "moe_act"], ...] = ()
    """What ``selective`` computes again, as megatron.core names it; attention alone when empty."""
    policy: Line | None = None
    """What is kept, by the name that MaxText or PaXML gives it; in place of a granularity."""


class Fp8(Frozen):
    """FP8 recipe, named as transformer-engine names it."""

    recipe: Literal["delayed", "tensorwise", "blockwise", "mxfp8"] = "delayed"
    format: Literal["hybrid", "e4m3"] = "hybrid"
    amax_history_len: PositiveInt = 1024
    amax_compute_algo: Literal["max", "most_recent"] = "max"
    param_gather: bool = True
    """Keep the weights in FP8 and gather them so."""
    dot_product_attention: bool = False
    """Attention in FP8 too, not only the linear layers."""
    store_activation_input: bool = False
    """What enters SwiGLU is kept in FP8 for the backward pass: a quarter of a layer's activations less."""
    tp_only_amax_reduction: bool = False
    """The largest values are shared by the ranks that split a tensor (tp, cp), not by the data-parallel ones."""


FP32_AT_A_TIME = 2**28
"""Parameters whose lower-precision moments Adam makes FP32 at once for its step, in the worker: 1 GiB each."""


class Optimizer(Frozen):
    """In which precision Adam keeps what belongs to a weight. Gradients: ``grad_reduce_in_fp32``."""

    precision_aware: bool = False
    """transformer-engine's Adam holds all states and reads gradients as they are: no FP32 copy of them is made."""
    main_params: Literal["fp32", "fp16"] = "fp32"
    """The copy of the weights that is updated."""
    exp_avg: StatePrecision = "fp32"
    """Adam's first moment."""
    exp_avg_sq: StatePrecision = "fp32"
    """Adam's second moment."""


class Lora(Frozen):
    """Low-rank adapters: the weights stay as they are, two thin matrices beside each are trained."""

    rank: PositiveInt = 8
    """Inner width of an adapter."""
    alpha: PositiveFloat = 16
    """What an adapter adds is scaled by alpha / rank."""
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Of an adapter's input."""
    target_modules: tuple[Line, ...] = ()
    """Which linear layers get one, as the framework names them; every one of a block when empty."""


class Training(Frozen):
    """What is computed a step, and how often."""

    model_config = ConfigDict(allow_inf_nan=False)  # spec.json could not hold it

    steps: PositiveInt = 50
    seed: NonNegativeInt = 1234
    lr: PositiveFloat = 3e-6
    """As small as in the first steps of a long warm-up. Without one, wide and deep models overshoot: at 3e-5 GPT-3's
    loss went from 13 to 40 in a step and Nemotron-4's to 31, at 3e-4 Mixtral and Llama 2 13B diverged."""
    min_lr: NonNegativeFloat = 3e-7
    lr_warmup_steps: NonNegativeInt = 0
    weight_decay: NonNegativeFloat = 0.1
    clip_grad: NonNegativeFloat = 1.0
    """The norm to which gradients are cut; 0 cuts none."""
    distributed_optimizer: bool = True
    """Each data-parallel rank keeps only its part of the optimizer's states."""
    overlap_grad_reduce: bool = True
    overlap_param_gather: bool = True
    grad_reduce_in_fp32: bool = False
    tp_comm_overlap: bool = False
    """Tensor-parallel communication overlaps with its matrix products (transformer-engine's userbuffers)."""
    cp_comm: Literal["p2p", "a2a", "all_gather"] = "p2p"
    """How context-parallel ranks share keys and values: in a ring, by exchange for heads, or gathered."""
    cuda_graphs: Literal["none", "layers"] = "none"
    """``layers``: each transformer layer is launched as one graph (of experts, the attention alone)."""
    transformer_impl: Literal["transformer_engine", "local"] = "transformer_engine"
    """Whose layers the worker computes on a GPU: transformer-engine's, or megatron.core's own, as on a CPU."""
    fused_kernels: bool = True
    """With transformer-engine one kernel for each of: an activation with its bias, RoPE, the loss, the router."""
    moe_grouped_gemm: bool = True
    """With transformer-engine the experts of a rank are multiplied together, not one by one (NeMo 1: never)."""
    moe_permute_fusion: bool = True
    """With transformer-engine tokens are sorted by their experts, and back, in one kernel (NeMo 1: never)."""
    manual_gc_interval: NonNegativeInt = 100
    """Steps between collections of Python's garbage; 0: when a rank finds it is time, mid-step, and the others wait."""
    optimizer: Optimizer = Optimizer()
    recompute: Recompute = Recompute()
    fp8: Fp8 = Fp8()
    """Used only where the run's precision is fp8."""
    lora: Lora = Lora()
    """Used only where the task is lora."""
    ceilings: bool = False
    """Before the first step measure what the machine reaches alone: matrix products, copies, collectives (10 s)."""
    breakdown: bool = False
    """After the last step profile one more: matrix products, attention, other kernels, communication, nothing."""

    @property
    def of_transformer_engine(self) -> tuple[str, ...]:
        """The fields that ask the worker for what only transformer-engine has."""
        asked = {
            "optimizer.precision_aware": self.optimizer.precision_aware,
            "cuda_graphs": self.cuda_graphs != "none",
            "tp_comm_overlap": self.tp_comm_overlap,
            "cp_comm": self.cp_comm != "p2p",
        }
        return tuple(name for name, wanted in asked.items() if wanted)


class Synthetic(Frozen):
    """A data set that ``datagen tokens`` makes: files, so that loader, index and shuffling run as with real data.

    The limits here and below are datagen's own: what it would refuse in the job is refused before.
    """

    tokens: int | None = Field(default=None, gt=0, le=10**15)
    """Its size; as many as the run reads, if not given."""
    seed: int = Field(default=1234, ge=0, lt=1 << 63)
    documents: Literal["fixed", "lognormal", "zipf"] = "lognormal"
    """How the lengths of documents are distributed."""
    mean_length: int = Field(default=1024, gt=0, le=(2**31 - 1) // 1000)
    """Mean length of a document, in tokens."""
    distribution: Literal["uniform", "zipf"] = "zipf"
    """How often each token occurs."""
    exponent: float = Field(default=1.1, gt=0, le=8)
    """Of the Zipf distribution of tokens."""
    learnable: bool = False
    """Tokens follow a rule, with a known floor of the loss: a falling loss proves that training works."""


class Instructions(Frozen):
    """Conversations that ``datagen sft`` makes, and ``datagen tokenizer`` the tokenizer that they are read with.

    Framework hf is given their text; NeMo 2 and Megatron-Bridge are given their tokens, packed to whole sequences.
    """

    samples: int = Field(default=10_000, gt=0, le=10**10)
    """Conversations; begun again where a run reads more."""
    seed: int = Field(default=1234, ge=0, lt=1 << 63)
    lengths: Literal["fixed", "lognormal", "zipf"] = "lognormal"
    """How the lengths of conversations are distributed."""
    mean_length: int = Field(default=256, ge=4, le=1_000_000)
    """Mean length of a conversation: words for hf, tokens for the others."""


class Data(Frozen):
    """What the model is fed."""

    kind: Literal["mock", "synthetic"] = "mock"
    """``mock``: random tokens made by the framework itself; ``synthetic``: files, made before the run where missing."""
    num_workers: NonNegativeInt = 1
    """Data-loader processes a rank (0: in the training process)."""
    synthetic: Synthetic = Synthetic()
    """Only with ``kind: synthetic``."""
    instructions: Instructions = Instructions()
    """The same for a fine-tune, which is fed conversations."""


class RunSpec(Frozen):
    """One run, resolved: the only input of rendering, launching, the worker and the comparison."""

    schema_version: Literal[2] = 2
    recipe: Line
    task: Task
    proxy: bool
    """A smaller model than the recipe's: never comparable with the whole one."""
    reduced: tuple[Line, ...] = ()
    """What makes it one: ``num_layers 1 of 126`` for each dimension that differs."""
    source: Line | None = None
    """Who published this layout, where, in which version; null for a derived one."""
    derived: Line | None = None
    """Why this layout was derived rather than published; null for a published one."""
    framework: Framework
    image: Line | None
    gpu: Line
    precision: Precision
    num_gpus: PositiveInt
    """Ranks: one a GPU, or CPU processes."""
    num_nodes: PositiveInt
    seq_length: PositiveInt
    mbs: PositiveInt
    """Micro-batch: sequences a data-parallel rank computes at once."""
    gbs: PositiveInt
    """Global batch: sequences a step, over all ranks."""
    dp: PositiveInt
    num_microbatches: PositiveInt
    """gbs / (mbs * dp)."""
    model: ModelShape
    layout: Layout
    training: Training
    data: Data
    env: dict[EnvName, str] = Field(default_factory=dict)
    """Environment of the ranks: the framework's, the recipe's, then the cluster's; later ones win."""
    replaced_env: dict[EnvName, str] = Field(default_factory=dict)
    """What the framework or the recipe set before the cluster's variables of the same names took their place."""
    cluster: Cluster

    @property
    def tokens_per_step(self) -> int:
        """Tokens a step, over all ranks."""
        return self.gbs * self.seq_length

    @property
    def container_image(self) -> str | None:
        """The image that the run is in; None where the cluster runs it without a container."""
        return None if self.cluster.container.runtime == "none" else self.image

    @property
    def transformer_engine(self) -> bool:
        """Whether the worker's layers are transformer-engine's."""
        worker = self.framework == "megatron-core" and self.gpu != "CPU"
        return worker and self.training.transformer_impl == "transformer_engine"

    @property
    def own_worker(self) -> bool:
        """Whether this package itself trains: the run then carries a copy of it."""
        return self.framework in ("megatron-core", "hf")

    @property
    def instructed(self) -> bool:
        """Whether the synthetic data are conversations rather than tokens."""
        return self.framework == "hf" or self.task != "pretrain"

    @property
    def packed(self) -> bool:
        """Whether they come as packed sequences of tokens rather than as text."""
        return self.instructed and self.framework != "hf"

    @property
    def data_set(self) -> str:
        """Name of the synthetic data set: another one for other parameters."""
        part, size = self.data.synthetic.model_dump(mode="json"), f"tokens{self.data.synthetic.tokens}"
        if self.instructed:
            part, size = self.data.instructions.model_dump(mode="json"), f"samples{self.data.instructions.samples}"
        if self.packed:
            part, size = {**part, "seq_length": self.seq_length}, f"seq{self.seq_length}-{size}"
        keys = {"vocab_size": self.model.vocab_size, **part}
        digest = hashlib.sha256(json.dumps(keys, sort_keys=True).encode()).hexdigest()[:8]
        return f"vocab{self.model.vocab_size}-{size}-{digest}"

    def identity(self) -> str:
        """Eight hex digits that differ when what is measured differs: not where, nor what is measured beside it."""
        return identity(self)

    def step_identity(self) -> str:
        """The same for a single step: however many of them the run takes."""
        return step_identity(self)

    def repeat_key(self) -> str:
        """What repeats share: recipe and identity, and the site with its environment."""
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
