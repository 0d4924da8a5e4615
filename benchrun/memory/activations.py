"""Bytes that a GPU stores from the forward to the backward pass: the part of the memory
that is an estimate.

Compared with peaks that were measured on H100 and H200 in tests/memory/test_memory.py.
"""

from benchrun.frameworks.registry import framework
from benchrun.model import Moe
from benchrun.model.adapters import MEGATRON, TRANSFORMERS
from benchrun.model.communication import sequence_split
from benchrun.model.costs import bubble
from benchrun.model.layers import layer_counts
from benchrun.model.operators import Operators, Product, operators
from benchrun.model.parts import Mla
from benchrun.runspec.spec import TrainingSpec
from benchrun.runspec.training import RESIDENT_LAYERS
from benchrun.vocabulary import LOW


def stage_layers(spec: TrainingSpec) -> float:
    """Layers of the largest pipeline stage."""
    layout, stages = spec.layout, spec.layout.stage_list
    if stages:
        layers = [stage.count("t") for stage in stages]
        return float(max(sum(layers[rank :: layout.pp]) for rank in range(layout.pp)))
    # Where both ends count as layers, inner stages have one more than outer ones, and
    # no embedding: it holds for both.
    return (spec.model.num_layers + 2 * layout.account_for_embedding_and_loss) / layout.pp


def weights_of_a_layer(spec: TrainingSpec, listed: Operators) -> tuple[float, float]:
    """Weights of a layer on one GPU, first the dense ones, then its experts'; the mean
    if layers differ."""
    layers, dense, experts = spec.model.num_layers / spec.layout.pp, 0.0, 0.0
    for product in listed.block:
        weights = product.count * product.weights / layers
        if product.expert:
            experts += weights
        else:
            dense += weights
    return dense, experts


def stored(spec: TrainingSpec, first: bool, extra: float = 0.0) -> float:
    """Activations of the first or the last pipeline stage; ``extra`` is added in bytes
    per token and layer."""
    recompute, layers = spec.training.recompute, stage_layers(spec)
    in_flight = _in_flight(spec, first)
    whole = layer(spec) + extra
    if recompute.policy is not None:
        per_token = layers * _stored_by_policy(spec, recompute.policy) + whole
    elif spec.training.offload_activations:
        per_token = min(layers, RESIDENT_LAYERS) * whole
    elif recompute.granularity == "full":
        again = layers
        if recompute.method != "uniform":
            again = min((recompute.num_layers or 0) * spec.layout.vp, layers)
        # A recomputed layer stores its input; one layer at a time has all of its
        # activations.
        per_token = (layers - again) * whole + again * _input(spec) + whole / max(in_flight, 1)
    else:
        per_token = layers * whole
    return _tokens(spec) * per_token * in_flight * (width(spec) / 2)


def _in_flight(spec: TrainingSpec, first: bool) -> float:
    """Micro-batches whose activations the first or the last stage holds at once (1F1B,
    or interleaved)."""
    pp, vp = spec.layout.pp, spec.layout.vp
    later: float = bubble(pp, vp)
    if not first:
        return min(spec.num_microbatches, pp - later)
    if vp == 1:
        return min(spec.num_microbatches, pp)
    return min(spec.num_microbatches, pp + later)


def logits(spec: TrainingSpec) -> float:
    """Logits in two bytes and their softmax in four; transformer-engine's loss writes
    the gradient over the logits."""
    worker = framework(spec.framework).memory.unfused_gates
    elements = _tokens(spec) * spec.model.vocab_size / spec.layout.tp
    if worker and spec.transformer_engine and spec.training.fused_kernels:
        return elements * 2
    return elements * 6


def width(spec: TrainingSpec) -> int:
    """Bytes of an element of weights and activations."""
    return 4 if spec.precision == "fp32" else 2


def _tokens(spec: TrainingSpec) -> float:
    """Tokens of a micro-batch on one GPU, before sequence parallelism."""
    return spec.mbs * spec.seq_length / spec.layout.cp


def _input(spec: TrainingSpec) -> float:
    """Bytes per token of a layer's input."""
    return 2 * spec.model.hidden_size / sequence_split(spec.layout)


def _stored_by_policy(spec: TrainingSpec, policy: str) -> float:
    """Bytes per token and layer under a policy of the framework; an unlisted one is
    assumed to store everything."""
    outputs = framework(spec.framework).memory.policies.get(policy)
    if outputs is None:
        return layer(spec)
    listed = operators(spec.model, layout=spec.layout)
    return _input(spec) + 2 * sum(listed.product(name).n for name in outputs)


def layer(spec: TrainingSpec) -> float:
    """Bytes per token and layer: norms, attention, MLP; the mean if layers differ.
    In FP8, what only a matrix product reads again is one byte.

    Recomputed modules store their input, which the norm before them stores anyway.
    """
    model, again, unread = spec.model, spec.training.recompute.modules, _unread_inputs(spec)
    counts, listed = layer_counts(model), operators(model, layout=spec.layout)
    named = {each.name: each for each in listed.products}
    operand = _operand(spec)
    norm_output = operand * _input(spec) / 2
    norm = _input(spec) + norm_output
    total = counts.attention * (norm + _attention(spec, named))
    if "qkv" in unread:
        total -= counts.attention * norm_output
    if "mlp" in again:
        total += counts.dense * _input(spec)
    elif counts.dense:
        total += counts.dense * (norm + _mlp(spec, named, "dense_" if model.moe else ""))
        if "fc1" in unread:
            total -= counts.dense * norm_output
    if "moe" in again:
        total += counts.experts * _input(spec)
    elif model.moe and counts.experts:  # a proxy may have none of them
        total += counts.experts * (norm + _experts(spec, model.moe, named))
    if counts.mamba:
        # What enters and leaves the convolution, and the scan's result before and after
        # its gate.
        inner, projected = named["out_proj"].k, named["in_proj"].n
        total += counts.mamba * (norm + 2 * (2 * projected + inner) + operand * inner)
    return total / model.num_layers


def _operand(spec: TrainingSpec) -> int:
    """Bytes of what only a matrix product reads again."""
    if spec.precision in LOW:
        return 1
    return 2


def _attention(spec: TrainingSpec, named: dict[str, Product]) -> float:
    """Bytes of queries, keys and values, and of the output; in FP8 the output once
    more, for the projection."""
    output = 2 * named["proj"].k
    if spec.precision in LOW:
        output += named["proj"].k
    if spec.model.mla is None:
        return 2 * named["qkv"].n + output
    return output + _latent(spec, spec.model.mla, named)


def _latent(spec: TrainingSpec, mla: Mla, named: dict[str, Product]) -> float:
    """Bytes of the latents, and of their projections unless they are computed again."""
    latents = 2 * sum(named[name].n for name in ("q_down", "kv_down") if name in named)
    if "mla_up_proj" in spec.training.recompute.modules:
        return latents
    rotated = spec.model.num_attention_heads / spec.layout.tp * mla.qk_pos_emb_head_dim
    return latents + 2 * (named["q_up"].n + named["kv_up"].n + rotated)


def _mlp(spec: TrainingSpec, named: dict[str, Product], prefix: str, expert: bool = False) -> float:
    """The up-projection, and the activation."""
    up, down = named[f"{prefix}fc1"].n, named[f"{prefix}fc2"].k
    if spec.precision != "fp8" or not spec.training.fp8.store_activation_input:
        up *= 2
    if expert and "moe_act" in spec.training.recompute.modules:
        return up
    product = _unfused_gate_bytes(spec)
    if "fc2" not in _unread_inputs(spec):
        product += _operand(spec)
    return up + product * down


def _experts(spec: TrainingSpec, moe: Moe, named: dict[str, Product]) -> float:
    """Each token is copied to topk experts: input, up-projection, activation, output;
    then the shared experts.

    The ranks of an expert's own tensor parallelism see the same tokens.
    """
    copies = moe.topk * (moe.capacity_factor or 1) * spec.layout.etp / sequence_split(spec.layout)
    routed = copies * (4 * spec.model.expert_width + _mlp(spec, named, "", expert=True))
    if moe.shared_ffn_hidden_size and "shared_experts" not in spec.training.recompute.modules:
        return routed + _mlp(spec, named, "shared_")
    return routed


def _unread_inputs(spec: TrainingSpec) -> set[str]:
    """Products whose input nothing reads again: those of frozen weights that no adapter
    reads.

    transformer-engine stores the norm's output all the same if the norm is a part of
    the layer. With dropout an adapter stores a copy of its own.
    """
    launched, lora = framework(spec.framework), spec.training.lora
    if spec.task != "lora":
        return set()
    if spec.precision in LOW and not launched.own_worker:  # others store them in FP8
        return set()
    names, candidates = MEGATRON, {"fc2"}
    if launched.memory.fully_sharded:  # the norm is a layer of its own
        names, candidates = TRANSFORMERS, {"qkv", "fc1", "fc2"}
        if lora.dropout:
            return candidates
    if not lora.target_modules:
        return set()
    return {name for name in candidates if not {*lora.target_modules} & {*names[name]}}


def _unfused_gate_bytes(spec: TrainingSpec) -> int:
    """Bytes per width of the MLP that are stored if no fused kernel computes the
    gate.

    They hold the gate, and for an expert also its product before the router's weight.
    megatron.core has a fused kernel for experts with SwiGLU alone.
    """
    model = spec.model
    if not framework(spec.framework).memory.unfused_gates or not model.gated:
        return 0
    fused = spec.transformer_engine and spec.training.fused_kernels
    if fused and (model.moe is None or model.activation == "swiglu"):
        return 0
    return 2 if model.moe is None else 4
