"""Estimates the memory of a GPU, by part, from the operator list: whether a run fits.

The result is that of the pipeline stage that needs most: the first ones have most
micro-batches in flight, the last one the output layer and the logits.
Flash attention is assumed: it stores no S x S matrix, so recomputing it saves nothing.
Biases, norms and routers are left out.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass

from benchrun import hardware
from benchrun.frameworks.registry import framework
from benchrun.model.adapters import MEGATRON, TRANSFORMERS, adapted, adapter_params
from benchrun.model.communication import optimizer_shards, replicas, weight_shards
from benchrun.model.layers import ATTENTION, EXPERTS, MAMBA, MLP
from benchrun.model.operators import Operators, Product, operators
from benchrun.runspec.spec import TrainingSpec
from benchrun.runspec.training import Recompute
from benchrun.vocabulary import GIB, LOW

from . import activations
from .activations import NVFP4
from .stages import Stage, stages

NEARLY_FULL = 0.9
GATHERED_AHEAD = 0.5e9
"""Parameters that megatron.core's FSDP gathers ahead, at least a layer; of gradients
twice as many wait (0.19)."""
ESTIMATE_ERROR = 0.1
"""Largest error of the estimate, as a fraction of the peak. Peaks measured on H100 and
H200 (tests/memory, tests/recipe/test_hf.py) differ less: the worst estimates are 6 %
too low and 7 % too high."""


@dataclass(frozen=True)
class Memory:
    """GiB per GPU."""

    weights: float
    gathered: float
    """Weights that FSDP has gathered: of the layer that computes and of the next
    one."""
    gradients: float
    optimizer: float
    activations: float
    logits: float
    placeholders: float = 0.0
    """Gradients for autograd if the real ones are accumulated elsewhere: one matrix
    per shape, never freed."""
    step: float = 0.0
    """Temporary memory of the optimizer step, beyond what freed activations and logits
    cover."""

    @property
    def states(self) -> float:
        """Memory between two steps: exact arithmetic, no estimate."""
        return self.weights + self.gradients + self.optimizer

    @property
    def total(self) -> float:
        """Sum of the parts; the framework and NCCL take some GiB more."""
        return float(sum(asdict(self).values()))

    def parts(self) -> dict[str, float]:
        """The parts and their total, rounded to 0.01 GiB."""
        parts = {name: round(value, 2) for name, value in asdict(self).items()}
        return {**parts, "total": round(self.total, 2)}


def estimate(spec: TrainingSpec) -> Memory:
    """Memory per GPU of ``spec`` on the stage that needs most."""
    if framework(spec.framework).memory.fully_sharded:
        parts = _fully_sharded(spec)
    else:
        listed, halves = operators(spec.model, layout=spec.layout), activations.half_layers(spec)
        each = [_stage(spec, stage, listed, halves) for stage in stages(spec)]
        parts = max(each, key=lambda parts: sum(parts.values()))
    return Memory(**{part: size / GIB for part, size in parts.items()})


def impossible(spec: TrainingSpec) -> str | None:
    """Reason why a run cannot fit, whatever the error of the estimate; None if it may
    fit, or the GPU has no row."""
    gpu, memory = hardware.site_gpu(spec.cluster), estimate(spec)
    if gpu is None:
        return None
    if memory.states > gpu.memory_gib:
        return (
            f"weights, gradients and optimizer states alone take {memory.states:.0f} GiB per GPU, and {spec.gpu} has "
            f"{gpu.memory_gib:g}: spread them over more GPUs (tp, pp, fsdp, more data-parallel ranks)"
        )
    if memory.total <= gpu.memory_gib * (1 + ESTIMATE_ERROR):
        return None
    advice = ""
    for change, size in _smaller(spec, gpu.memory_gib):
        advice += f"{change} would need {size:.0f}, "
    if advice:
        advice += "or "
    return (
        f"it needs about {memory.total:.0f} GiB per GPU, and {spec.gpu} has {gpu.memory_gib:g}; the estimate is at "
        f"most {ESTIMATE_ERROR:.0%} off: {advice}spread the model over more GPUs (tp, pp, cp, fsdp)"
    )


def _smaller(spec: TrainingSpec, available_gib: float) -> Iterator[tuple[str, float]]:
    """Changes that would fit into ``available_gib`` on the same GPUs, with what they
    would need in GiB."""
    full = Recompute(granularity="full", method="uniform", num_layers=1)
    recomputing = spec.model_copy(
        update={"training": spec.training.model_copy(update={"recompute": full})}
    )
    size = estimate(recomputing).total
    if size <= available_gib:
        yield "full recompute", size
    if not framework(spec.framework).memory.micro_batches:
        return
    for mbs in range(spec.mbs // 2, 0, -1):
        if spec.mbs % mbs == 0:
            size = estimate(spec.resized(mbs=mbs)).total
            if size <= available_gib:
                yield f"mbs {mbs}", size
                return  # the largest that fits


def warning(spec: TrainingSpec) -> str | None:
    """A warning for a job that may run out of GPU memory; None if it fits, or the GPU
    has no row."""
    gpu, total = hardware.site_gpu(spec.cluster), estimate(spec).total
    if gpu is None or total <= NEARLY_FULL * gpu.memory_gib:
        return None
    return (
        f"{spec.recipe} needs about {total:.0f} GiB per GPU, and {spec.gpu} has {gpu.memory_gib:g}"
    )


def _stage(
    spec: TrainingSpec, stage: Stage, listed: Operators, halves: dict[str, float]
) -> dict[str, float]:
    """Bytes of one pipeline stage, by part."""
    layout, lora, training = spec.layout, spec.task == "lora", spec.training
    dense, expert = _weights(stage, listed)
    ends = stage.tables * listed.product("logits").weights
    if layout.pp == 1 and spec.model.tied_embeddings:
        ends /= 2
    cut, expert_cut = weight_shards(layout)
    trained = own = (dense + ends) / cut + expert / expert_cut
    ranks, expert_ranks = optimizer_shards(layout, spec.dp, training.distributed_optimizer)
    xla = framework(spec.framework).memory.planned_by_xla
    if 1 < layout.fsdp < spec.dp * layout.cp and not xla:
        # Megatron's FSDP cuts the states over the replicas too.
        ranks, expert_ranks = replicas(layout, spec.dp)
    states = (dense + ends) / ranks + expert / expert_ranks
    if lora:
        adapters = stage.layers * adapter_params(
            spec.model, MEGATRON, training.lora.target_modules, training.lora.rank
        )
        trained, states = adapters / layout.tp, adapters / layout.tp / ranks
    stored = activations.stored(spec, stage, halves)
    logits = activations.logits(spec, stage)
    weight = activations.width(spec)
    gradient = 4 if training.grad_reduce_in_fp32 else weight
    largest_part = max(product.weights for product in listed.products) / ranks
    state, step = _adam(spec, states, ends / ranks, largest_part, gradient)
    gathered = _gathered(spec, stage, dense + expert, ends, weight, gradient * (not lora))
    weights = own * weight
    if spec.precision in LOW:
        low = own - ends / cut
        if spec.precision == "fp8" and training.fp8.param_gather:
            weights -= low * weight
        elif layout.fsdp > 1:
            # transformer-engine keeps the FP8 copies of a gathered weight for the
            # backward pass.
            low = dense + expert
        weights += low * _low_precision_bytes(spec)
    return {
        "weights": weights,
        "gathered": gathered,
        "gradients": trained * gradient,
        "optimizer": states * state,
        "activations": stored,
        "logits": logits,
        "placeholders": _placeholders(spec, listed.products if stage.output else listed.block),
        "step": max(0.0, step - stored - logits - gathered),
    }


def _weights(stage: Stage, listed: Operators) -> tuple[float, float]:
    """Weights of a stage on one GPU, first the dense ones, then its experts'."""
    sums = [0.0, 0.0]
    for product in listed.block:
        count = stage.predictions
        if product.name != "mtp_proj":
            count = stage.halves[_kind(product)]
        sums[product.expert] += count * product.matrices * product.weights
    return sums[0], sums[1]


def _kind(product: Product) -> str:
    """The kind of half layer that a product is a part of."""
    if product.expert or product.name.startswith(("shared_", "latent_")):
        return EXPERTS
    if product.name.endswith(("fc1", "fc2")):
        return MLP
    return MAMBA if product.name in ("in_proj", "out_proj") else ATTENTION


def _low_precision_bytes(spec: TrainingSpec) -> float:
    """Bytes of a weight in low precision: by rows, and by columns for the gradient of
    the input. Blackwell reads the rows for both if all numbers share one scale."""
    if spec.precision == "nvfp4":
        return 2 * NVFP4
    gpu = hardware.gpu(spec.gpu)
    one_scale = spec.training.fp8.recipe in ("delayed", "tensorwise")
    return 1 if one_scale and gpu is not None and gpu.family == "blackwell" else 2


def _gathered(
    spec: TrainingSpec, stage: Stage, layered: float, ends: float, weight: int, gradient: int
) -> float:
    """Bytes of whole weights and gradients under FSDP. ``layered`` and ``ends``:
    parameters of all layers, and in no layer.

    megatron.core gathers the layer that computes and the next ones, and reduces the
    gradients of the last ones together; it has all that is in no layer whole. XLA
    gathers two layers, and the rest apart.
    """
    if spec.layout.fsdp == 1:
        return 0.0
    layers, unit = stage.layers, layered / stage.layers
    if framework(spec.framework).memory.planned_by_xla:
        return unit * (2 * weight + gradient)
    ahead = max(GATHERED_AHEAD, unit)
    whole = min(layers, 1 + math.ceil(ahead / unit))
    reduced = min(layers + 1 - whole, 1 + 2 * ahead // unit)
    return (whole * unit + ends) * weight + (reduced * unit + ends) * gradient


def _placeholders(spec: TrainingSpec, products: Iterable[Product]) -> float:
    """Bytes of the gradients that stand in for those that kernels add to the buffer
    themselves; one per shape.

    get_dummy_wgrad in transformer-engine 2.11, which megatron.core's own linear layers
    call as well.
    """
    planned_by_xla = framework(spec.framework).memory.planned_by_xla
    if spec.layout.fsdp > 1 or spec.gpu == "CPU" or spec.task == "lora" or planned_by_xla:
        return 0.0
    shapes = {(product.n, product.k) for product in products}
    return 2.0 * sum(n * k for n, k in shapes)


def _adam(
    spec: TrainingSpec, states: float, of_ends: float, largest: float, gradient: int
) -> tuple[int, float]:
    """Bytes per parameter that Adam keeps, and bytes that its step needs for a while.

    ``states``: parameters of this rank, ``of_ends`` of them outside the layers;
    ``largest``: of one matrix.
    """
    optimizer, fp8 = spec.training.optimizer, spec.training.fp8
    facts = framework(spec.framework).memory
    fp8_weights = spec.precision == "fp8" and fp8.param_gather
    # The precision-aware Adam writes FP8 weights under delayed scaling alone; otherwise
    # megatron.core makes them.
    aware = optimizer.precision_aware and not (fp8_weights and fp8.recipe != "delayed")
    moments = [_bytes_of(optimizer.exp_avg), _bytes_of(optimizer.exp_avg_sq)]
    weights = _bytes_of(optimizer.main_params)
    if spec.precision == "fp32":
        weights = 0  # the weights themselves are the only copy
    elif optimizer.precision_aware and not fp8_weights:
        weights = 2  # only what a BF16 weight lacks of FP32
    step = 0.0
    if not (aware or facts.planned_by_xla):
        # megatron.core takes gradients in FP32; transformer-engine makes a BF16 copy of
        # all FP8 weights at once.
        if gradient != 4:
            step += states * 4
        if fp8_weights and spec.task != "lora":
            step += (states - of_ends) * 2
    if optimizer.precision_aware and facts.moments_at_a_time:
        # transformer-engine's FusedAdam.step makes the FP32 moments of a group before
        # it drops those of the last one.
        step += 4 * moments.count(2) * min(2 * max(facts.moments_at_a_time, largest), states)
    return weights + sum(moments), step


def _bytes_of(number: str) -> int:
    return 4 if number == "fp32" else 2


def _fully_sharded(spec: TrainingSpec) -> dict[str, float]:
    """Bytes per GPU of a fine-tune by transformers: FSDP over all ranks, trained
    weights in FP32, whole output layer.

    Compared with peaks that were measured on H200 in tests/recipe/test_hf.py.
    """
    listed, model, lora = operators(spec.model), spec.model, spec.training.lora
    trained, frozen = float(model.params_total), 0
    if spec.task == "lora":
        frozen = model.params_total
        trained = model.num_layers * adapter_params(
            model, TRANSFORMERS, lora.target_modules, lora.rank
        )
    narrow, tokens = activations.width(spec), spec.mbs * spec.seq_length
    (stage,), halves = stages(spec), activations.half_layers(spec)
    layer, eager = sum(product.weights for product in listed.block), _eager_bytes(spec)
    # transformers stores logits as computed, in FP32 and as a gradient in FP32; it
    # frees them before it recomputes.
    logits = float(tokens * model.vocab_size * (narrow + 8))
    if spec.training.recompute.granularity == "full":
        logits = max(logits - tokens * (activations.layer(stage, halves) + eager), 0.0)
    return {
        "weights": (frozen * narrow + trained * 4) / spec.num_gpus,
        # Two layers (one computes, the next arrives), and the output layer from its
        # forward to its backward pass.
        "gathered": (2 * layer + listed.product("logits").weights) * narrow,
        "gradients": trained * 4 / spec.num_gpus + layer * narrow * (not frozen),
        "optimizer": trained * 8 / spec.num_gpus,
        "activations": activations.stored(spec, stage, halves, extra=eager),
        "logits": logits,
    }


def _eager_bytes(spec: TrainingSpec) -> float:
    """Extra bytes per token and layer that transformers stores, as it has no fused
    kernels."""
    lora, (queries, keys, _) = spec.training.lora, operators(spec.model).product("qkv").outputs
    # Both norms compute in FP32; RoPE keeps what it rotates.
    extra = 2 * 4 * spec.model.hidden_size + 2 * (queries + keys)
    if spec.task == "lora" and lora.dropout:
        # Each adapter stores its own dropped copy and a mask.
        extra += 3 * sum(
            inputs for inputs, _ in adapted(spec.model, TRANSFORMERS, lora.target_modules)
        )
    return extra
