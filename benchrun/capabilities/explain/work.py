"""Least time of a step's work: at the GPU's peak, at its memory's and its links' speed."""

from collections.abc import Mapping
from dataclasses import dataclass

from benchrun import hardware
from benchrun.hardware import Gpu
from benchrun.model import costs
from benchrun.model.communication import Collective, Sizes
from benchrun.model.flops import PASSES
from benchrun.model.operators import MULTIPLY_ADD, Operators, Product, operators, weight_passes
from benchrun.rundir.artifacts import Ceilings
from benchrun.runspec.spec import TrainingSpec

SHARE_OF_OVERLAPPED = 0.25
"""Share of a group's overlapped communication that counts when exposed time is divided.
"""
OUTSIDE = ("embedding", "positions", "loss", "adam")
"""Memory-bound kernels that are in no layer."""
GROUPS = {"etp": "ep", "expert_dp": "dp", "fsdp": "dp", "expert_fsdp": "dp"}
"""Groups that count with another."""


@dataclass(frozen=True)
class Work:
    """Seconds of a step on one GPU at the least; None if the GPU's peak or its memory's
    speed is unknown.
    """

    matmul_s: float | None
    products_memory_s: float
    """Seconds that the products lose because they are too small: they wait for their
    matrices to be read and written.
    """
    attention_s: float | None
    plain_attention_s: float
    """Seconds of attention without a kernel of its own: products that compute, write
    and read both triangles of the scores.
    """
    memory_s: float | None
    bytes_sent: dict[str, float]
    """Bytes through a rank's links in a step by group (tp, cp, ep, dp, pp), as bus
    bandwidth counts them.
    """
    message_bytes: float
    """Size of a message, the mean over bytes."""
    recomputed: float
    """Share of the products of a step that the recipe computes twice."""
    recomputed_attention: float
    recomputed_memory: float
    """Time of the repeated memory-bound kernels as a share of that of all other passes.
    """
    bubble: float
    """Idle time of a pipeline over its computing time."""


def work_unknown(spec: TrainingSpec) -> Work:
    """Work of a log that does not state what its steps compute: the pipeline bubble, if
    it states the batch.
    """
    return Work(
        None,
        0.0,
        None,
        0.0,
        None,
        {},
        0.0,
        0.0,
        0.0,
        0.0,
        _bubble(spec) if hasattr(spec, "gbs") else 0.0,
    )


def _bubble(spec: TrainingSpec) -> float:
    return float(costs.bubble(spec.layout.pp, spec.layout.vp, spec.num_microbatches))


def work(spec: TrainingSpec, ceilings: Ceilings | None) -> Work:
    """The least that a step of this run takes."""
    ops = _operators(spec)
    gpu = hardware.gpu(spec.gpu)
    count = spec.num_microbatches
    matmul = None
    attention = None
    bound_by_memory = 0.0
    plain = 0.0
    speed = None
    if gpu:
        speed = gpu.memory_gb_per_s
    if ceilings:
        speed = ceilings.copy_gb_per_s
    high = None
    if gpu:
        high = gpu.peak_tflops("fp32" if spec.precision == "fp32" else "bf16")
    if gpu and high:
        low = gpu.peak_tflops(spec.precision) or high
        computing_s = []
        waiting_s = []
        for each in ops.products:
            peak = low if each.low_precision else high
            computing_s.append(len(each.passes) * each.flops / (peak * 1e12))
            waiting_s.append(max(_moved_s(each, gpu) - computing_s[-1], 0.0))
        matmul = count * sum(computing_s)
        bound_by_memory = count * sum(waiting_s)
        in_fp8 = spec.precision == "fp8" and spec.training.fp8.dot_product_attention
        peak = low if in_fp8 else high
        attention = count * PASSES * ops.attention.flops / 2 / (peak * 1e12)
        plain = _plain_s(spec, gpu, attention)
    return Work(
        matmul_s=matmul,
        products_memory_s=bound_by_memory,
        attention_s=attention,
        plain_attention_s=plain,
        memory_s=_moved_bytes(spec, ops) / (speed * 1e9) if speed else None,
        bytes_sent=_bytes_sent(ops, count),
        message_bytes=_message_bytes(ops, count),
        recomputed=_recomputed(spec, ops),
        recomputed_attention=1 / PASSES if _attention_again(spec) else 0.0,
        recomputed_memory=_recomputed_memory(spec, ops),
        bubble=_bubble(spec),
    )


def products_flops(spec: TrainingSpec) -> float:
    """FLOPs of one pass of the matrix products of a micro-batch on one GPU, as
    ceilings.json has them.
    """
    return sum(
        each.count * MULTIPLY_ADD * each.m * each.n * each.k for each in _operators(spec).products
    )


def weights_of_groups(spec: TrainingSpec, sent: Mapping[str, float]) -> dict[str, float]:
    """Shares of exposed time of the groups: by what they send, less what overlaps with
    computing.
    """
    overlapped = {"dp": spec.training.overlap_grad_reduce, "tp": spec.training.tp_comm_overlap}
    weights = {group: amount for group, amount in sent.items() if amount}
    for group in weights:
        if overlapped.get(group):
            weights[group] *= SHARE_OF_OVERLAPPED
    total = sum(weights.values())
    return {group: weight / total for group, weight in weights.items()}


def _operators(spec: TrainingSpec) -> Operators:
    training = spec.training
    sizes = Sizes(
        activation=4 if spec.precision == "fp32" else 2,
        gradient=4 if training.grad_reduce_in_fp32 else 2,
    )
    return operators(
        spec.model.model_copy(update={"vocab_size": spec.model.padded_vocab_size}),
        spec.mbs * spec.seq_length / spec.layout.cp,
        spec.seq_length,
        spec.layout,
        task=spec.task,
        dp=spec.dp,
        sizes=sizes,
        distributed_optimizer=training.distributed_optimizer,
        cp_comm=training.cp_comm,
    )


def _bytes_sent(ops: Operators, count: int) -> dict[str, float]:
    sent: dict[str, float] = {}
    for each in ops.collectives:
        group = GROUPS.get(each.group, each.group)
        sent[group] = sent.get(group, 0.0) + each.bus_bytes * _times_of(each, count)
    return sent


def _times_of(each: Collective, count: int) -> float:
    """How often a collective runs in a step of ``count`` micro-batches."""
    return count * (each.forward + each.backward) + each.step


def _message_bytes(ops: Operators, count: int) -> float:
    total = 0.0
    weighted = 0.0
    for each in ops.collectives:
        amount = each.bytes * _times_of(each, count)
        total += amount
        weighted += each.bytes * amount
    if not total:
        return 0.0
    return weighted / total


def _moved_s(product: Product, gpu: Gpu) -> float:
    """Reading both matrices and writing the result in each pass, two bytes an element."""
    elements = product.m * product.k + product.k * product.n + product.m * product.n
    return len(product.passes) * product.count * elements * 2 / (gpu.memory_gb_per_s * 1e9)


def _plain_s(spec: TrainingSpec, gpu: Gpu, attention_s: float) -> float:
    """Seconds of both triangles at the peak, or at the memory's speed: a product of
    depth d has d operations for each byte of its scores, of two bytes each.
    """
    peak = gpu.peak_bf16_tflops * 1e12
    return 2 * attention_s * max(peak / (spec.model.kv_channels * gpu.memory_gb_per_s * 1e9), 1.0)


def _recomputed(spec: TrainingSpec, ops: Operators) -> float:
    """Forward products that run again, over all products of the recipe's passes."""
    recompute = spec.training.recompute
    again = 0.0
    for each in ops.block:
        if costs.repeats(each, recompute.granularity, recompute.modules):
            again += each.flops
    if recompute.granularity == "full":
        again *= _recomputed_layers(spec)
    passes = len(weight_passes(spec.task))
    return again / (passes * sum(each.flops for each in ops.products))


def _recomputed_memory(spec: TrainingSpec, ops: Operators) -> float:
    """Bytes of the layers' forward pass that move again, over all bytes of the recipe's
    passes. Of selective recomputation the few kernels between products are left out.
    """
    if spec.training.recompute.granularity != "full":
        return 0.0
    again = sum(each.forward_bytes for each in ops.memory_bound if each.name not in OUTSIDE)
    return _recomputed_layers(spec) * spec.num_microbatches * again / _moved_bytes(spec, ops)


def _moved_bytes(spec: TrainingSpec, ops: Operators) -> float:
    """Through the memory in a step, by memory-bound kernels."""
    count = spec.num_microbatches
    return sum(
        count * (each.forward_bytes + each.backward_bytes) + each.step_bytes
        for each in ops.memory_bound
    )


def _recomputed_layers(spec: TrainingSpec) -> float:
    """Share of the layers that full recomputation computes twice."""
    recompute = spec.training.recompute
    if recompute.method != "block" or not recompute.num_layers:
        return 1.0
    return min(recompute.num_layers * spec.layout.vp * spec.layout.pp / spec.model.num_layers, 1.0)


def _attention_again(spec: TrainingSpec) -> bool:
    recompute = spec.training.recompute
    chosen = not recompute.modules or "core_attn" in recompute.modules
    return recompute.granularity == "full" or (recompute.granularity == "selective" and chosen)
