"""Computation of a training step (optimizer, recomputation, FP8, adapters), and the
data that the model is fed.
"""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat

from benchrun.model import Frozen
from benchrun.model.layout import Size

from .cluster import Line

StatePrecision = Literal["fp32", "bf16", "fp16"]
Module = Literal["core_attn", "layernorm", "mlp", "moe", "moe_act", "mla_up_proj", "shared_experts"]
Scope = Literal["attn", "mlp", "moe", "moe_router", "moe_preprocess", "mamba"]
Switch = bool | int | float | Line | tuple[Line, ...] | None


class Recompute(Frozen):
    """Activations that the forward pass drops and the backward pass computes again."""

    granularity: Literal["none", "selective", "full"] = "none"
    """Amount that is computed again: nothing, the modules of ``modules``, or whole
    layers.
    """
    method: Literal["uniform", "block"] | None = None
    """Method of choosing layers; only with ``full``."""
    num_layers: Size | None = None
    """Layers per unit (uniform) or per virtual stage (block); only with ``full``."""
    modules: tuple[Module, ...] = ()
    """Modules that ``selective`` recomputes, by megatron.core's names; attention alone
    when empty.
    """
    policy: Line | None = None
    """Checkpoint policy of MaxText or PaXML, in place of a granularity."""


class Fp8(Frozen):
    """FP8 recipe, named as transformer-engine names it."""

    recipe: Literal["delayed", "tensorwise", "blockwise", "mxfp8"] = "delayed"
    """How tensors are scaled."""
    format: Literal["hybrid", "e4m3"] = "hybrid"
    """E4M3 everywhere, or E5M2 for gradients (hybrid)."""
    amax_history_len: Size = 1024
    """Steps whose largest values decide a scale (delayed scaling)."""
    amax_compute_algo: Literal["max", "most_recent"] = "max"
    """Choice of the amax value that decides."""
    param_gather: bool = True
    """Weights are stored and gathered in FP8."""
    dot_product_attention: bool = False
    """Attention in FP8 too, not only the linear layers."""
    store_activation_input: bool = False
    """The input of SwiGLU is stored in FP8 for the backward pass: a quarter less
    activations per layer.
    """
    fast_gradients: bool = False
    """The products of gradients are summed like the forward pass's, in fewer bits
    (delayed scaling).
    """
    tp_only_amax_reduction: bool = False
    """The largest values are shared by the ranks that split a tensor (tp, cp), not by
    the data-parallel ones.
    """


FP32_AT_A_TIME = 2**28
"""Parameters whose lower-precision moments the worker's Adam converts to FP32 at once:
1 GiB per moment.
"""


class Optimizer(Frozen):
    """Precision of Adam's states. That of gradients is ``grad_reduce_in_fp32``."""

    precision_aware: bool = False
    """transformer-engine's Adam stores all states and reads gradients in their
    precision, without an FP32 copy.
    """
    main_params: Literal["fp32", "fp16"] = "fp32"
    """The copy of the weights that is updated."""
    main_grads: Literal["fp32", "bf16"] | None = None
    """The gradients that a precision-aware Adam reads; by default in the precision of
    their reduction.
    """
    exp_avg: StatePrecision = "fp32"
    """Adam's first moment."""
    exp_avg_sq: StatePrecision = "fp32"
    """Adam's second moment."""


class Lora(Frozen):
    """Low-rank adapters: the weights are frozen, and two thin matrices beside each are
    trained.
    """

    rank: Size = 8
    """Inner width of an adapter."""
    alpha: PositiveFloat = 16
    """An adapter's output is scaled by alpha / rank."""
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Dropout of an adapter's input."""
    target_modules: tuple[Line, ...] = ()
    """Linear layers that get an adapter, by the framework's names; all of a block when
    empty.
    """


RESIDENT_LAYERS = 2
"""Layers whose activations are on the GPU while others are offloaded: one computes, the
other is being copied.
"""


class Training(Frozen, allow_inf_nan=False):  # spec.json could not hold infinity
    """Computation of a step, and the number of steps."""

    adam_betas: ClassVar[tuple[float, float]] = (0.9, 0.95)
    adam_eps: ClassVar[float] = 1e-8
    steps: Size = 50
    """Optimizer steps."""
    seed: NonNegativeInt = 1234
    """Seed of weights and data order."""
    lr: PositiveFloat = 3e-6
    """Learning rate, as small as early in a long warm-up: without one, GPT-3's loss
    rose from 13 to 40 at 3e-5.
    """
    min_lr: NonNegativeFloat = 3e-7
    """Learning rate at the end of the cosine decay."""
    lr_warmup_steps: NonNegativeInt = 0
    """Steps of linear warm-up from zero."""
    weight_decay: NonNegativeFloat = 0.1
    """Decoupled weight decay of Adam."""
    clip_grad: NonNegativeFloat = 1.0
    """Largest norm of the gradients; 0 clips none."""
    distributed_optimizer: bool = True
    """Each data-parallel rank stores only its part of the optimizer's states."""
    overlap_grad_reduce: bool = True
    """Gradients are reduced during the backward pass."""
    overlap_param_gather: bool = True
    """Weights are gathered during the forward pass."""
    grad_reduce_in_fp32: bool = False
    """Gradients are accumulated and reduced in FP32."""
    tp_comm_overlap: bool = False
    """Tensor-parallel communication overlaps with its matrix products
    (transformer-engine's userbuffers).
    """
    cp_comm: Literal["p2p", "a2a", "all_gather"] = "p2p"
    """How context-parallel ranks share keys and values: in a ring, exchanged for heads,
    or gathered.
    """
    cuda_graphs: Literal["none", "layers", "full_iteration"] = "none"
    """``layers``: each layer is launched as one graph, or its parts in ``graph_scopes``
    (worker: of experts, the attention alone); ``full_iteration``: all of a step's
    forward and backward passes are.
    """
    graph_scopes: tuple[Scope, ...] = ()
    """Parts of a layer that ``layers`` captures, by megatron.core's names; the whole
    layer when empty.
    """
    transformer_impl: Literal["transformer_engine", "local"] = "transformer_engine"
    """Layers of the worker on a GPU: transformer-engine's, or megatron.core's own, as
    on a CPU.
    """
    fused_kernels: bool = True
    """Use one kernel of transformer-engine for each of: an activation with its bias,
    RoPE, the loss, the router.
    """
    swiglu: Literal["torch", "transformer_engine"] = "torch"
    """Library of the fused kernel that computes SwiGLU in dense layers: torch compiles
    one, transformer-engine has one.
    """
    late_loss_scale: bool = False
    """The loss's scale is applied after the output layer's products of gradients, not
    to the gradient of all logits.
    """
    moe_grouped_gemm: bool = True
    """Multiply the experts of a rank together with transformer-engine, not one by one
    (NeMo 1: never).
    """
    moe_permute_fusion: bool = True
    """Sort tokens by their experts, and back, in one kernel of transformer-engine (NeMo
    1: never).
    """
    moe_dispatcher: Literal["alltoall", "deepep", "hybridep"] = "alltoall"
    """Sender of tokens to their experts: NCCL's all-to-all, or the kernels of DeepEP
    or of HybridEP.
    """
    moe_overlap: bool = False
    """The exchange of tokens of one micro-batch overlaps with the computation of
    another.
    """
    manual_gc_interval: NonNegativeInt = 100
    """Steps between garbage collections of Python; 0: automatic, which may stall one
    rank mid-step.
    """
    optimizer: Optimizer = Optimizer()
    """Precision of Adam's states."""
    recompute: Recompute = Recompute()
    """Activations that are computed again."""
    offload_activations: bool = False
    """Activations wait in host memory for the backward pass; those of two layers are on
    the GPU.
    """
    offload_modules: tuple[Line, ...] = ()
    """Modules whose inputs wait in host memory for the backward pass, by
    megatron.core's names.
    """
    switches: Mapping[str, Switch] = {}
    """Other arguments of NeMo 2's or Megatron-Bridge's configuration, as its publisher set
    them: ``ddp.average_in_collective``; ``comm_overlap`` leaves this part out.
    """
    fp8: Fp8 = Fp8()
    """Used only if the run's precision is fp8."""
    lora: Lora = Lora()
    """Used only if the task is lora."""
    ceilings: bool = False
    """Measure the machine before the first step: matrix products, copies, collectives
    (10 s).
    """
    breakdown: bool = False
    """Profile one more step after the last: time in matrix products, attention, other
    kernels, communication, idle.
    """


class Synthetic(Frozen):
    """A data set that ``datagen tokens`` makes: files, so that loader, index and
    shuffling run as with real data.

    The limits here and below are datagen's, so that a wrong value is refused before the
    job starts.
    """

    tokens: int | None = Field(default=None, gt=0, le=10**15)
    """Size in tokens; by default as many as the run reads."""
    seed: int = Field(default=1234, ge=0, lt=1 << 63)
    """Seed of the generator."""
    documents: Literal["fixed", "lognormal", "zipf"] = "lognormal"
    """How the lengths of documents are distributed."""
    mean_length: int = Field(default=1024, gt=0, le=(2**31 - 1) // 1000)
    """Mean length of a document, in tokens."""
    distribution: Literal["uniform", "zipf"] = "zipf"
    """How often each token occurs."""
    exponent: float = Field(default=1.1, gt=0, le=8)
    """Exponent of the Zipf distribution of tokens."""
    learnable: bool = False
    """Tokens follow a rule with a known lowest loss: a loss that falls to it proves
    that training works.
    """


class Instructions(Frozen):
    """Conversations that ``datagen sft`` makes; ``datagen tokenizer`` makes their
    tokenizer.

    Framework hf reads their text; NeMo 2 and Megatron-Bridge read their tokens, packed
    to whole sequences.
    """

    samples: int = Field(default=10_000, gt=0, le=10**10)
    """Number of conversations; a run that reads more starts again with the first."""
    seed: int = Field(default=1234, ge=0, lt=1 << 63)
    """Seed of the generator."""
    lengths: Literal["fixed", "lognormal", "zipf"] = "lognormal"
    """How the lengths of conversations are distributed."""
    mean_length: int = Field(default=256, ge=4, le=1_000_000)
    """Mean length of a conversation: words for hf, tokens for the others."""


class Data(Frozen):
    """Data that the model is fed."""

    kind: Literal["mock", "synthetic"] = "mock"
    """``mock``: random tokens made by the framework itself; ``synthetic``: files, made
    before the run if missing.
    """
    num_workers: NonNegativeInt = 1
    """Data-loader processes per rank (0: in the training process)."""
    synthetic: Synthetic = Synthetic()
    """Parameters of the synthetic data set; only with ``kind: synthetic``."""
    instructions: Instructions = Instructions()
    """Conversations of a fine-tune; only with ``kind: synthetic``."""

    def of_tokens(self, tokens: int) -> "Data":
        """Return the data with the size of a synthetic data set, if none is stated."""
        if self.kind == "mock" or self.synthetic.tokens is not None:
            return self
        return self.model_copy(
            update={"synthetic": self.synthetic.model_copy(update={"tokens": tokens})}
        )
