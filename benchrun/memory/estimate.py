"""Estimates the memory of a GPU, by part, from the operator list.

The result is that of the pipeline stage that needs most: the first has most micro-batches in flight and the embedding,
the last the output layer and the logits. Flash attention is assumed: it stores no S x S matrix, so recomputing it saves
nothing. Biases, norms and routers are left out.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import NamedTuple

from benchrun.frameworks.registry import framework
from benchrun.memory import activations, fully_sharded
from benchrun.model.adapters import MEGATRON, adapter_params
from benchrun.model.communication import optimizer_shards, weight_shards
from benchrun.model.operators import operators
from benchrun.spec.runspec import RunSpec

GIB = 2**30


@dataclass(frozen=True)
class Memory:
    """GiB per GPU."""

    weights: float
    gathered: float
    """Weights that FSDP has gathered: of the layer that computes and of the next one."""
    gradients: float
    optimizer: float
    activations: float
    logits: float
    placeholders: float = 0.0
    """Gradients for autograd where the real ones are accumulated elsewhere: one matrix per shape, never freed."""
    step: float = 0.0
    """Temporary memory of the optimizer step, beyond what freed activations and logits cover."""

    @property
    def states(self) -> float:
        """What exists between two steps: exact arithmetic, no estimate."""
        return self.weights + self.gradients + self.optimizer

    @property
    def total(self) -> float:
        """Sum of the parts; the framework and NCCL take some GiB more."""
        return float(sum(asdict(self).values()))

    def parts(self) -> dict[str, float]:
        """The parts and their total, rounded to 0.01 GiB."""
        return {name: round(value, 2) for name, value in {**asdict(self), "total": self.total}.items()}


def estimate(spec: RunSpec) -> Memory:
    """Memory per GPU of ``spec`` on the stage that needs most."""
    if framework(spec.framework).memory.fully_sharded:
        stages = [fully_sharded.parts(spec)]
    else:
        stages = [_stage(spec, first) for first in ((True, False) if spec.layout.pp > 1 else (True,))]
    parts = max(stages, key=lambda parts: sum(parts.values()))
    return Memory(**{part: size / GIB for part, size in parts.items()})


class _Bytes(NamedTuple):
    """Bytes per parameter."""

    weight: int
    """FP8 keeps two one-byte copies (plain and transposed), as much as BF16."""
    fp8_copies: int
    """FP8 copies beside BF16 weights."""
    gradient: int
    state: int
    """Adam: two moments, and a copy of the weights unless they are FP32 themselves."""
    gradient_copy: int
    """Gradients in FP32 for megatron.core's Adam, unless it is precision-aware."""
    weight_copy: int
    """The BF16 copy that transformer-engine makes of all FP8 weights at once."""
    converted_moments: int
    """Moments that Adam converts to FP32 in its step (FusedAdam.get_unscaled_state in transformer-engine 2.11)."""
    placeholder: int
    """get_dummy_wgrad in transformer-engine 2.11, which megatron.core's own linear layers call as well."""


def _bytes(spec: RunSpec) -> _Bytes:
    optimizer, facts = spec.training.optimizer, framework(spec.framework).memory
    fp32, fp8, lora, xla = spec.precision == "fp32", spec.precision == "fp8", spec.task == "lora", facts.planned_by_xla
    fp8_weights = fp8 and spec.training.fp8.param_gather
    # The precision-aware Adam writes FP8 weights under delayed scaling alone; otherwise megatron.core makes them.
    aware = optimizer.precision_aware and not (fp8_weights and spec.training.fp8.recipe != "delayed")
    gradient = 4 if fp32 or spec.training.grad_reduce_in_fp32 else 2
    weights, *moments = (
        4 if kind == "fp32" else 2 for kind in (optimizer.main_params, optimizer.exp_avg, optimizer.exp_avg_sq)
    )
    if optimizer.precision_aware and not fp8_weights:
        weights = 2  # only what a BF16 weight lacks of FP32
    converted = optimizer.precision_aware and facts.moments_at_a_time
    return _Bytes(
        weight=4 if fp32 else 2,
        fp8_copies=2 if fp8 and not fp8_weights else 0,
        gradient=gradient,
        state=(0 if fp32 else weights) + sum(moments),
        gradient_copy=0 if gradient == 4 or aware or xla else 4,
        weight_copy=2 if fp8_weights and not (aware or lora or xla) else 0,
        converted_moments=4 * moments.count(2) if converted else 0,
        placeholder=0 if lora or xla or spec.gpu == "CPU" else 2,
    )


def _stage(spec: RunSpec, first: bool) -> dict[str, float]:
    """Bytes of the first or of the last pipeline stage, by part."""
    layout, lora, each = spec.layout, spec.training.lora, _bytes(spec)
    listed, layers = operators(spec.model, layout=layout), activations.stage_layers(spec)
    layer = sum(product.weights for product in listed.block if not product.expert)
    expert_layer = sum(product.weights * product.matrices for product in listed.block if product.expert)
    dense, expert = layers * layer, layers * expert_layer
    ends = listed.product("logits").weights * (1 if layout.pp > 1 or spec.model.tied_embeddings else 2)
    cut, expert_cut = weight_shards(layout)
    trained = own = (dense + ends) / cut + expert / expert_cut
    ranks, expert_ranks = optimizer_shards(layout, spec.dp, spec.training.distributed_optimizer)
    states = (dense + ends) / ranks + expert / expert_ranks
    if spec.task == "lora":
        trained = adapter_params(spec.model, MEGATRON, lora.target_modules, lora.rank) * layers / layout.tp
        states = trained / ranks
    output = not first or layout.pp == 1
    # Elements of the matrices of a layer, each shape once, and of the output layer.
    shapes = {(product.n, product.k) for product in (listed.products if output else listed.block)}
    stored, logits = activations.stored(spec, first), activations.logits(spec) if output else 0.0
    at_once = max(framework(spec.framework).memory.moments_at_a_time, *(product.weights for product in listed.products))
    step = states * each.gradient_copy + (states - ends / ranks) * each.weight_copy
    step += each.converted_moments * min(at_once, states)
    gathered = 2 * each.weight + (0 if spec.task == "lora" else each.gradient)
    return {
        "weights": own * each.weight + (own - ends / cut) * each.fp8_copies,
        "gathered": (layer + expert_layer) * gathered if layout.fsdp > 1 else 0.0,
        "gradients": trained * each.gradient,
        "optimizer": states * each.state,
        "activations": stored,
        "logits": logits,
        "placeholders": each.placeholder * sum(n * k for n, k in shapes),
        "step": max(0.0, step - stored - logits),
    }
