"""Bytes that a GPU stores from the forward to the backward pass: the part of the memory that is an estimate.

Compared with peaks that were measured on H100 and H200 in tests/memory/test_memory.py.
"""

from benchrun.frameworks.registry import framework
from benchrun.model.communication import sequence_split
from benchrun.model.operators import operators
from benchrun.spec.runspec import TrainingSpec
from benchrun.spec.training import RESIDENT_LAYERS


def stage_layers(spec: TrainingSpec) -> float:
    """Layers of the largest pipeline stage."""
    # Where both ends count as layers, inner stages have one more than outer ones, and no embedding: it holds for both.
    return (spec.model.num_layers + 2 * spec.layout.account_for_embedding_and_loss) / spec.layout.pp


def stored(spec: TrainingSpec, first: bool, extra: float = 0.0) -> float:
    """Activations of the first or the last pipeline stage; ``extra`` is added in bytes per token and layer."""
    recompute, layers, layout = spec.training.recompute, stage_layers(spec), spec.layout
    # Micro-batches whose activations the stage holds at once (1F1B, or interleaved).
    later = (layout.pp - 1) / layout.vp
    in_flight = min(spec.num_microbatches, layout.pp + (later if layout.vp > 1 else 0) if first else layout.pp - later)
    whole = per_token = layer(spec) + extra
    if recompute.policy is not None:
        per_token = layers * _stored_by_policy(spec, recompute.policy) + whole
    elif spec.training.offload_activations:
        per_token = min(layers, RESIDENT_LAYERS) * whole
    elif recompute.granularity == "full":
        again = layers if recompute.method == "uniform" else min((recompute.num_layers or 0) * layout.vp, layers)
        # A recomputed layer stores its input; one layer at a time has all of its activations.
        per_token = (layers - again) * whole + again * _input(spec) + whole / max(in_flight, 1)
    else:
        per_token = layers * whole
    return _tokens(spec) * per_token * in_flight * (2 if spec.precision == "fp32" else 1)


def logits(spec: TrainingSpec) -> float:
    """Logits in two bytes and their softmax in four; transformer-engine's loss writes the gradient over the logits."""
    worker = framework(spec.framework).memory.unfused_gates
    in_place = worker and spec.transformer_engine and spec.training.fused_kernels
    return _tokens(spec) * spec.model.vocab_size / spec.layout.tp * (2 if in_place else 6)


def _tokens(spec: TrainingSpec) -> float:
    """Tokens of a micro-batch on one GPU, before sequence parallelism."""
    return spec.mbs * spec.seq_length / spec.layout.cp


def _input(spec: TrainingSpec) -> float:
    """Bytes per token of a layer's input."""
    return 2 * spec.model.hidden_size / sequence_split(spec.layout)


def _stored_by_policy(spec: TrainingSpec, policy: str) -> float:
    """Bytes per token and layer under a policy of the framework; an unlisted one is assumed to store everything."""
    outputs = framework(spec.framework).memory.policies.get(policy)
    if outputs is None:
        return layer(spec)
    listed = operators(spec.model, layout=spec.layout)
    return _input(spec) + 2 * sum(listed.product(name).n for name in outputs)


def layer(spec: TrainingSpec) -> float:
    """Bytes per token and layer: norms, attention, MLP. In FP8, what only a matrix product reads again is one byte.

    Recomputed modules store their input, which the norm before them stores anyway.
    """
    qkv, proj, fc1, fc2, _ = operators(spec.model, layout=spec.layout).products
    fp8, again, moe = spec.precision == "fp8", spec.training.recompute.modules, spec.model.moe
    operand = 1 if fp8 else 2
    norms = (2 + operand) * _input(spec)  # two norms' inputs and outputs
    attention = 2 * (qkv.n + proj.k) + (proj.k if fp8 else 0)  # in FP8 the output once more, for the projection
    if "mlp" in again or "moe" in again:
        return norms + attention - operand * _input(spec) / 2
    gates = 1 if fp8 and spec.training.fp8.store_activation_input else 2
    product = 0 if "moe_act" in again else operand + _unfused_gate_bytes(spec)
    mlp = gates * fc1.n + product * fc2.k
    if moe is None:
        return norms + attention + mlp
    # Each token is copied to topk experts: input, up-projection, activation, output. The ranks of an expert's own
    # tensor parallelism see the same tokens.
    copies = moe.topk * (moe.capacity_factor or 1) * spec.layout.etp / sequence_split(spec.layout)
    return norms + attention + copies * (4 * spec.model.hidden_size + mlp)


def _unfused_gate_bytes(spec: TrainingSpec) -> int:
    """Bytes per width of the MLP that are stored where no fused kernel computes the gate.

    They hold the gate, and for an expert also its product before the router's weight. megatron.core has a fused kernel
    for experts with SwiGLU alone.
    """
    model, experts = spec.model, spec.model.moe is not None
    if not framework(spec.framework).memory.unfused_gates or not model.gated:
        return 0
    fused = spec.transformer_engine and spec.training.fused_kernels and (model.activation == "swiglu" or not experts)
    return 0 if fused else 4 if experts else 2
