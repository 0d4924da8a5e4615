"""Estimates the memory of a GPU, by part, from the operator list.

The result is that of the pipeline stage that needs most: the first has most micro-batches in flight and the embedding,
the last the output layer and the logits. Flash attention is assumed: it stores no S x S matrix, so recomputing it saves
nothing. Biases, norms and routers are left out.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

from benchrun.frameworks.registry import framework
from benchrun.memory import activations, fully_sharded
from benchrun.model.adapters import MEGATRON, adapter_params
from benchrun.model.communication import optimizer_shards, weight_shards
from benchrun.model.operators import Operators, operators
from benchrun.spec.runspec import TrainingSpec

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


def estimate(spec: TrainingSpec) -> Memory:
    """Memory per GPU of ``spec`` on the stage that needs most."""
    if framework(spec.framework).memory.fully_sharded:
        return _in_gib(fully_sharded.parts(spec))
    stages = (True, False) if spec.layout.pp > 1 else (True,)
    return max((_stage(spec, first) for first in stages), key=lambda memory: memory.total)


def _in_gib(parts: dict[str, float]) -> Memory:
    return Memory(**{part: size / GIB for part, size in parts.items()})


def _stage(spec: TrainingSpec, first: bool) -> Memory:
    """Memory of the first or of the last pipeline stage."""
    listed, layers = operators(spec.model, layout=spec.layout), activations.stage_layers(spec)
    layer = sum(product.weights for product in listed.block if not product.expert)
    expert_layer = sum(product.weights * product.matrices for product in listed.block if product.expert)
    dense, expert = layers * layer, layers * expert_layer
    ends = listed.product("logits").weights * (1 if spec.layout.pp > 1 or spec.model.tied_embeddings else 2)
    cut, expert_cut = weight_shards(spec.layout)
    own = (dense + ends) / cut + expert / expert_cut
    lora = spec.training.lora
    adapters = adapter_params(spec.model, MEGATRON, lora.target_modules, lora.rank) * layers / spec.layout.tp
    trained = adapters if spec.task == "lora" else own
    fp8_copies = own - ends / cut if spec.precision == "fp8" and not spec.training.fp8.param_gather else 0
    ranks, expert_ranks = optimizer_shards(spec.layout, spec.dp, spec.training.distributed_optimizer)
    states = trained / ranks if spec.task == "lora" else (dense + ends) / ranks + expert / expert_ranks
    output = not first or spec.layout.pp == 1
    stored, logits = activations.stored(spec, first), activations.logits(spec) if output else 0.0
    step = states * _gradient_copy(spec) + (states - ends / ranks) * _weight_copy(spec)
    step += _moments_at_a_time(spec, listed, states)
    gathered_bytes = 2 * _weight_bytes(spec) + (0 if spec.task == "lora" else _gradient_bytes(spec))
    return _in_gib(
        {
            "weights": own * _weight_bytes(spec) + 2 * fp8_copies,
            "gathered": (layer + expert_layer) * gathered_bytes if spec.layout.fsdp > 1 else 0.0,
            "gradients": trained * _gradient_bytes(spec),
            "optimizer": states * _state_bytes(spec),
            "activations": stored,
            "logits": logits,
            # get_dummy_wgrad in transformer-engine 2.11, which megatron.core's own linear layers call as well
            "placeholders": 2 * sum(_matrices(listed, output)) if _has_placeholders(spec) else 0.0,
            "step": max(0.0, step - stored - logits),
        }
    )


def _weight_bytes(spec: TrainingSpec) -> int:
    """FP8 keeps two one-byte copies (plain and transposed), as much as BF16."""
    return 4 if spec.precision == "fp32" else 2


def _gradient_bytes(spec: TrainingSpec) -> int:
    return 4 if spec.precision == "fp32" or spec.training.grad_reduce_in_fp32 else 2


def _state_bytes(spec: TrainingSpec) -> int:
    """Adam: two moments, and a copy of the weights unless they are FP32 themselves."""
    optimizer = spec.training.optimizer
    size = {"fp32": 4, "bf16": 2, "fp16": 2}
    copy = 0 if spec.precision == "fp32" else size[optimizer.main_params]
    if optimizer.precision_aware and not _fp8_weights(spec):
        copy = 2  # only what a BF16 weight lacks of FP32
    return copy + size[optimizer.exp_avg] + size[optimizer.exp_avg_sq]


def _has_placeholders(spec: TrainingSpec) -> bool:
    return not (spec.task == "lora" or framework(spec.framework).memory.planned_by_xla or spec.gpu == "CPU")


def _matrices(listed: Operators, output: bool) -> list[float]:
    """Elements of the matrices of a layer, each shape once, and of the output layer."""
    products = listed.products if output else listed.block
    return [n * k for n, k in {(product.n, product.k) for product in products}]


def _gradient_copy(spec: TrainingSpec) -> int:
    """Bytes per trained parameter: megatron.core's Adam takes gradients in FP32 unless it is precision-aware."""
    any_precision = spec.training.optimizer.precision_aware and not _fp8_by_core(spec)
    if _gradient_bytes(spec) == 4 or any_precision or framework(spec.framework).memory.planned_by_xla:
        return 0
    return 4


def _weight_copy(spec: TrainingSpec) -> int:
    """Bytes per trained FP8 weight of the BF16 copy that transformer-engine makes of all weights at once."""
    if not _fp8_weights(spec) or spec.task == "lora" or framework(spec.framework).memory.planned_by_xla:
        return 0
    return 2 if not spec.training.optimizer.precision_aware or _fp8_by_core(spec) else 0


def _moments_at_a_time(spec: TrainingSpec, listed: Operators, states: float) -> float:
    """Bytes of the moments that Adam converts to FP32 at once in its step: of some weights, or of one large weight.

    Source: FusedAdam.get_unscaled_state in transformer-engine 2.11.
    """
    optimizer, at_a_time = spec.training.optimizer, framework(spec.framework).memory.moments_at_a_time
    if not optimizer.precision_aware or not at_a_time:
        return 0.0
    lower = 2 - [optimizer.exp_avg, optimizer.exp_avg_sq].count("fp32")
    return 4 * lower * min(max(at_a_time, *_matrices(listed, output=True)), states)


def _fp8_weights(spec: TrainingSpec) -> bool:
    return spec.precision == "fp8" and spec.training.fp8.param_gather


def _fp8_by_core(spec: TrainingSpec) -> bool:
    """The precision-aware Adam writes FP8 weights under delayed scaling alone; otherwise megatron.core makes them."""
    return _fp8_weights(spec) and spec.training.fp8.recipe != "delayed"
