"""Bytes that a GPU stores from the forward to the backward pass: the part of the memory
that is an estimate.

Compared with peaks that were measured on H100 and H200 in tests/memory/test_memory.py.
"""

from benchrun.frameworks.registry import framework
from benchrun.model import Moe
from benchrun.model.adapters import MEGATRON, TRANSFORMERS
from benchrun.model.communication import sequence_split
from benchrun.model.layers import ATTENTION, EXPERTS, MAMBA, MLP
from benchrun.model.operators import Product, operators
from benchrun.model.parts import Mla
from benchrun.runspec.spec import TrainingSpec
from benchrun.runspec.training import RESIDENT_LAYERS
from benchrun.vocabulary import LOW

from .stages import Stage

NVFP4 = 0.5 + 1 / 16
"""Bytes of a number in NVFP4: four bits, and a byte of scale for sixteen of them."""


def stored(spec: TrainingSpec, stage: Stage, halves: dict[str, float], extra: float = 0.0) -> float:
    """Activations of a pipeline stage; ``halves``: bytes per token by kind; ``extra``
    is added in bytes per token and layer."""
    recompute, layers = spec.training.recompute, stage.layers
    whole = layer(stage, halves) + extra
    if recompute.policy is not None:
        per_token = layers * _stored_by_policy(spec, recompute.policy, whole - extra) + whole
    elif spec.training.offload_activations:
        per_token = min(layers, RESIDENT_LAYERS) * whole
    elif recompute.granularity == "full":
        again = layers
        if recompute.method != "uniform":
            again = min((recompute.num_layers or 0) * spec.layout.vp, layers)
        # A recomputed layer stores its input; one layer at a time has all of its
        # activations.
        per_token = (layers - again) * whole + again * _input(spec)
        per_token += whole / max(stage.in_flight, 1)
    else:
        per_token = layers * whole
    return _tokens(spec) * per_token * stage.in_flight * (width(spec) / 2)


def layer(stage: Stage, halves: dict[str, float]) -> float:
    """Bytes per token and layer, the mean over a stage."""
    return sum(count * halves[kind] for kind, count in stage.halves.items()) / stage.layers


def logits(spec: TrainingSpec, stage: Stage) -> float:
    """Logits of the output layer and of each multi-token prediction in two bytes, and
    four bytes that one of them needs for a while: measured at 5.6 in all.

    The worker's loss writes the gradient over the logits.
    """
    if not stage.output:
        return 0.0
    size = 2 * (1 + stage.predictions)
    worker = framework(spec.framework).memory.unfused_gates
    if not (worker and spec.transformer_engine and spec.training.fused_kernels):
        size += 4
    return _tokens(spec) * spec.model.vocab_size / spec.layout.tp * size


def width(spec: TrainingSpec) -> int:
    """Bytes of an element of weights and activations."""
    return 4 if spec.precision == "fp32" else 2


def _tokens(spec: TrainingSpec) -> float:
    """Tokens of a micro-batch on one GPU, before sequence parallelism."""
    return spec.mbs * spec.seq_length / spec.layout.cp


def _input(spec: TrainingSpec) -> float:
    """Bytes per token of a layer's input."""
    return 2 * spec.model.hidden_size / sequence_split(spec.layout)


def _stored_by_policy(spec: TrainingSpec, policy: str, whole: float) -> float:
    """Bytes per token and layer under a policy of the framework; an unlisted one is
    assumed to store everything."""
    outputs = framework(spec.framework).memory.policies.get(policy)
    if outputs is None:
        return whole
    listed = operators(spec.model, layout=spec.layout)
    return _input(spec) + 2 * sum(listed.product(name).n for name in outputs)


def half_layers(spec: TrainingSpec) -> dict[str, float]:
    """Bytes per token of each kind of half layer: norm and attention, norm and MLP. In
    FP8, what only a matrix product reads again is one byte.

    Recomputed modules store their input, which the norm before them stores anyway.
    """
    model, again, unread = spec.model, spec.training.recompute.modules, _unread_inputs(spec)
    named = {each.name: each for each in operators(model, layout=spec.layout).products}
    entering, operand = _input(spec), _operand(spec)
    read_once = operand * entering / 2
    halves = {}
    norm_output = read_once
    if "qkv" in unread or (model.mla and "layernorm" in again):
        norm_output = 0.0
    elif model.mla and operand < 2:
        norm_output *= 2  # both products into the latents keep a copy of their own
    halves[ATTENTION] = entering + norm_output + _attention(spec, named)
    mlp = "dense_" if model.moe else ""
    if f"{mlp}fc1" in named:
        halves[MLP] = entering
        if "mlp" not in again:
            halves[MLP] += read_once * ("fc1" not in unread) + _mlp(spec, named, mlp)
    if model.moe and "fc1" in named:  # a proxy may have no experts
        halves[EXPERTS] = entering
        if "layernorm" not in again:
            halves[EXPERTS] += entering  # the router reads it as it is
        if "moe" not in again:
            halves[EXPERTS] += _experts(spec, model.moe, named)
    if "in_proj" in named:
        # What enters and leaves the convolution, and the scan's result before and after
        # its gate.
        inner, projected = named["out_proj"].k, named["in_proj"].n
        halves[MAMBA] = entering + read_once + 2 * (2 * projected + inner) + operand * inner
    return halves


def _operand(spec: TrainingSpec) -> float:
    """Bytes of what only a matrix product reads again."""
    return {"fp8": 1, "nvfp4": NVFP4}.get(spec.precision, 2)


def _attention(spec: TrainingSpec, named: dict[str, Product]) -> float:
    """Bytes of queries, keys and values, and of the output; in FP8 the output once
    more, for the projection. Norms of queries and keys store these before the norm."""
    output = 2 * named["proj"].k
    if spec.precision in LOW:
        output += _operand(spec) * named["proj"].k
    if spec.model.mla is None:
        queries, keys, _ = named["qkv"].outputs
        normed = 2 * (queries + keys) if spec.model.qk_norm else 0
        return 2 * named["qkv"].n + normed + output
    return output + _latent(spec, spec.model.mla, named)


def _latent(spec: TrainingSpec, mla: Mla, named: dict[str, Product]) -> float:
    """Bytes of the latents, and of their projections unless they are computed again."""
    compressed = sum(named[name].n for name in ("q_down", "kv_down") if name in named)
    latents = 2 * compressed
    if "mla_up_proj" in spec.training.recompute.modules:
        return latents
    latents += _operand(spec) * compressed
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
    """Each token is copied to topk experts: input, up-projection, activation; then the
    shared experts. The router's weight is a factor of the activation, so nothing reads
    the output again (megatron-core 0.13). What waits in host memory is not counted.

    The ranks of an expert's own tensor parallelism see the same tokens.
    """
    operand, shared = _operand(spec), "shared_fc1" in named
    copies = moe.topk * (moe.capacity_factor or 1) * spec.layout.etp / sequence_split(spec.layout)
    in_host = spec.training.offload_modules
    each = operand * spec.model.expert_width * ("expert_fc1" not in in_host)
    each += _mlp(spec, named, "", expert=True)
    total = copies * each * ("fused_group_mlp" not in in_host)
    if moe.latent_size:  # the projections out of and into the width of the model
        both = spec.model.hidden_size * (operand < 2) + spec.model.expert_width
        total += operand * both / sequence_split(spec.layout)
    if shared and "shared_experts" not in spec.training.recompute.modules:
        total += _mlp(spec, named, "shared_")
        if operand < 2:
            total += operand * _input(spec) / 2
    return total


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
    chosen = set()
    for name in candidates:
        if not {*lora.target_modules} & {*names[name]}:
            chosen.add(name)
    return chosen


def _unfused_gate_bytes(spec: TrainingSpec) -> float:
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
