"""What the worker of this repository (framework megatron-core) refuses, and what no other framework is told.

Sources: the checks of megatron.core 0.16.1 and 0.19.2 (OptimizerConfig, TransformerConfig, Megatron-LM's arguments)
and of transformer-engine 2.11.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchrun import hardware
from benchrun.recipe.draft import Draft
from benchrun.spec.cluster import Framework
from benchrun.spec.training import Optimizer
from benchrun.vocabulary import Precision

TOLD_OF_ADAM: tuple[Framework, ...] = ("nemo2", "megatron-bridge")


def worker_only(draft: Draft, precision: Precision, framework: Framework) -> Iterator[str]:
    """Values that only the worker hands on; another framework would ignore them without a word."""
    if framework in TOLD_OF_ADAM:
        yield from _optimizer(draft, precision)
    training = draft.training
    for name, changed in (
        ("training.optimizer", training.optimizer != Optimizer() and framework not in TOLD_OF_ADAM),
        ("training.cuda_graphs", training.cuda_graphs != "none"),
        ("training.transformer_impl", training.transformer_impl != "transformer_engine"),
        ("training.fused_kernels", not training.fused_kernels),
        ("training.moe_grouped_gemm", not training.moe_grouped_gemm),
        ("training.moe_permute_fusion", not training.moe_permute_fusion),
        ("training.cp_comm", training.cp_comm != "p2p"),
        ("training.recompute.modules", bool(training.recompute.modules)),
        ("training.fp8.dot_product_attention", training.fp8.dot_product_attention),
        ("training.fp8.store_activation_input", training.fp8.store_activation_input),
        ("training.fp8.tp_only_amax_reduction", training.fp8.tp_only_amax_reduction),
    ):
        if changed:
            yield f"{framework} is launched with its default of {name}: only megatron-core is told another one"


def worker_refusals(draft: Draft, precision: Precision) -> Iterator[str]:
    """Every reason why the worker cannot run ``draft``."""
    yield from _without_transformer_engine(draft, precision)
    yield from _optimizer(draft, precision)
    yield from _recompute(draft, precision)
    yield from _experts(draft)
    yield from _attention(draft)
    training = draft.training
    if training.tp_comm_overlap and draft.cluster.gpu == "CPU":
        yield "tp_comm_overlap is between GPUs: it must be false"
    if training.cuda_graphs != "none" and (draft.cluster.gpu == "CPU" or training.recompute.granularity == "full"):
        yield "cuda_graphs need a GPU, and no full recompute: they must be none"
    if precision == "fp8":
        yield from _fp8(draft)


def _without_transformer_engine(draft: Draft, precision: Precision) -> Iterator[str]:
    if draft.training.transformer_impl == "transformer_engine":
        return
    names = [*draft.training.of_transformer_engine]
    if precision == "fp8":
        names.append("precision fp8")
    if draft.layout.cp > 1 and draft.cluster.gpu != "CPU":  # our attention would hold a mask of S x S
        names.append("layout.cp above 1")
    for name in names:
        yield f"{name} is transformer-engine's: transformer_impl must be transformer_engine"


def _optimizer(draft: Draft, precision: Precision) -> Iterator[str]:
    optimizer = draft.training.optimizer
    if not optimizer.precision_aware:
        if optimizer != Optimizer():
            yield "optimizer states below FP32 need optimizer.precision_aware: it must be true"
        return
    if draft.cluster.gpu == "CPU" or precision == "fp32":
        yield "optimizer.precision_aware is transformer-engine's Adam: it needs a GPU, and bf16 or fp8"
    if not draft.training.distributed_optimizer:
        yield "optimizer.precision_aware needs distributed_optimizer: it must be true"


def _recompute(draft: Draft, precision: Precision) -> Iterator[str]:
    recompute, experts = draft.training.recompute, draft.model.moe is not None
    modules = recompute.modules
    te = draft.cluster.gpu != "CPU" and draft.training.transformer_impl == "transformer_engine"
    if modules and recompute.granularity != "selective":
        yield f"recompute.modules belong to granularity selective, not {recompute.granularity}"
    for name in modules:
        if name in ("moe", "moe_act") and not experts:
            yield f"recompute.modules names {name}, and the model has no experts"
        if name == "mlp" and experts:
            yield "recompute.modules names mlp, and every layer has experts: it is moe there"
        if name in ("layernorm", "moe_act") and not te:
            # megatron.core asks transformer-engine how far its FP8 is before it drops an output.
            yield f"recompute.modules {name} needs transformer-engine, on a GPU: leave it out"
        elif name == "layernorm" and not experts:
            # Both norms of a dense layer are part of a product: megatron.core finds none to compute again.
            yield "recompute.modules layernorm does nothing without experts: norms are in transformer-engine's products"
        if name == "moe_act" and not draft.training.moe_grouped_gemm:
            yield "recompute.modules moe_act needs moe_grouped_gemm: it must be true"
        if name in ("layernorm", "moe_act") and precision == "fp8" and draft.training.fp8.recipe == "delayed":
            yield f"{name} cannot be computed again under delayed scaling: take fp8.recipe tensorwise or blockwise"


def _experts(draft: Draft) -> Iterator[str]:
    for name in ("moe_grouped_gemm", "moe_permute_fusion"):
        if draft.model.moe is None and not getattr(draft.training, name):
            yield f"{name} is about experts, and the model has none: it must be true"


def _attention(draft: Draft) -> Iterator[str]:
    layout, model, comm = draft.layout, draft.model, draft.training.cp_comm
    if comm == "p2p":
        return
    if layout.cp == 1 or draft.cluster.gpu == "CPU":
        yield f"cp_comm {comm} is transformer-engine's, between GPUs: cp {layout.cp} on {draft.cluster.gpu} takes p2p"
    elif comm == "a2a":
        for name, count in (("heads", model.num_attention_heads), ("query groups", model.num_query_groups)):
            if count // layout.tp % layout.cp:
                yield f"cp_comm a2a deals {name} out: {count} / tp {layout.tp} must be a multiple of cp {layout.cp}"


def _fp8(draft: Draft) -> Iterator[str]:
    fp8, training, layout = draft.training.fp8, draft.training, draft.layout
    if fp8.param_gather and not training.distributed_optimizer:
        yield "fp8.param_gather needs distributed_optimizer: one of the two must change"
    if fp8.dot_product_attention and fp8.recipe == "blockwise":
        yield "fp8.dot_product_attention knows delayed and tensorwise scaling, not blockwise"
    gpu, width = hardware.gpu(draft.cluster.gpu), draft.model.kv_channels
    if fp8.dot_product_attention and gpu and gpu.arch == "Hopper" and width != 128:
        yield f"fp8.dot_product_attention trains on Hopper with heads of 128 channels alone: kv_channels is {width}"
    if fp8.store_activation_input and draft.model.activation != "swiglu":
        yield f"fp8.store_activation_input is for swiglu, not for {draft.model.activation}: it must be false"
    tokens = draft.mbs * draft.seq_length // layout.cp // (layout.tp if layout.sequence_parallel else 1)
    if tokens % 16:
        yield f"mbs * seq_length / cp (/ tp with sequence_parallel) = {tokens} must be a multiple of 16 in fp8"
    if fp8.tp_only_amax_reduction and training.optimizer.precision_aware and fp8.param_gather:
        # Adam then finds the largest value of its own shard only, and nothing else shares it.
        yield "fp8.tp_only_amax_reduction with optimizer.precision_aware would leave ranks with different FP8 weights"
