"""An estimate of the memory a GPU needs, by part, before the job waits in a queue.

Counts the pipeline stage that needs most (the first: it holds most micro-batches in flight, and the embedding;
the output layer is added where it is the same stage). Flash attention is assumed: no S x S matrix is kept.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

from benchrun import hardware
from benchrun.model import ModelShape
from benchrun.recipe.spec import RunSpec

GIB = 2**30
NEARLY_FULL = 0.9


@dataclass(frozen=True)
class Memory:
    """GiB a GPU."""

    weights: float
    gradients: float
    optimizer: float
    activations: float
    logits: float

    @property
    def total(self) -> float:
        """Sum of the parts; the framework and NCCL take some GiB more."""
        return self.weights + self.gradients + self.optimizer + self.activations + self.logits

    def parts(self) -> dict[str, float]:
        """The parts and their total, rounded to 0.01 GiB."""
        return {name: round(value, 2) for name, value in {**asdict(self), "total": self.total}.items()}


def estimate(spec: RunSpec) -> Memory:
    """Memory a GPU of ``spec``, in GiB."""
    if spec.framework == "hf":
        return _fully_sharded(spec)
    dense, expert = _params(spec)
    wide = spec.precision == "fp32"
    weight_bytes = 4 if wide else 2  # FP8 keeps two one-byte copies (plain and transposed)
    gradient_bytes = 4 if wide or spec.training.grad_reduce_in_fp32 else 2
    # Adam: two moments in FP32, and an FP32 copy of the weights unless they are FP32 themselves.
    state_bytes = 8 if wide else 12
    layout = spec.layout
    expert_dp = spec.num_gpus // (layout.ep * layout.etp * layout.pp)
    shards = (spec.dp * layout.cp, expert_dp) if spec.training.distributed_optimizer else (1, 1)
    return Memory(
        weights=(dense + expert) * weight_bytes / GIB,
        gradients=(dense + expert) * gradient_bytes / GIB,
        optimizer=(dense / shards[0] + expert / shards[1]) * state_bytes / GIB,
        activations=_activations(spec) / GIB,
        logits=_logits(spec) / GIB,
    )


def _fully_sharded(spec: RunSpec) -> Memory:
    """FSDP over all ranks: a rank holds its part of everything, and what is gathered for the computation just now."""
    model, wide = spec.model, spec.precision == "fp32"
    total = model.params_total
    trained = adapter_params(spec) if spec.task == "lora" else total
    frozen = total if spec.task == "lora" else 0
    narrow = 4 if wide else 2
    layer = model.attention_params + model.mlp_params
    # Two layers (one computes, the next arrives), and the output layer from its forward to its backward pass.
    gathered = 2 * layer + model.vocab_size * model.hidden_size
    tokens = spec.mbs * spec.seq_length
    # transformers keeps the logits as computed, in FP32 and as a gradient in FP32; when a layer is recomputed, they
    # have gone.
    logits = float(tokens * model.vocab_size * (narrow + 8))
    if spec.training.recompute.granularity == "full":
        logits = max(logits - tokens * _layer_bytes(spec), 0.0)
    return Memory(
        weights=((frozen * narrow + trained * 4) / spec.num_gpus + gathered * narrow) / GIB,
        gradients=(trained * 4 / spec.num_gpus + (0 if frozen else layer * narrow)) / GIB,
        optimizer=trained * 8 / spec.num_gpus / GIB,
        activations=_activations(spec) / GIB,
        logits=logits / GIB,
    )


def adapter_params(spec: RunSpec) -> int:
    """Parameters of LoRA's adapters: rank x (inputs + outputs) of each layer that has one."""
    lora, widths = spec.training.lora, _linears(spec.model)
    return spec.model.num_layers * lora.rank * sum(sum(widths[name]) for name in lora.target_modules or widths)


def _linears(model: ModelShape) -> dict[str, tuple[int, int]]:
    """Inputs and outputs of a Llama's linear layers, as transformers names them."""
    query, key = model.num_attention_heads * model.kv_channels, model.num_query_groups * model.kv_channels
    hidden, inner = model.hidden_size, model.ffn_hidden_size
    return {
        "q_proj": (hidden, query),
        "k_proj": (hidden, key),
        "v_proj": (hidden, key),
        "o_proj": (query, hidden),
        "gate_proj": (hidden, inner),
        "up_proj": (hidden, inner),
        "down_proj": (inner, hidden),
    }


def _eager_bytes(spec: RunSpec) -> float:
    """Bytes a token and layer that transformers keeps on top, having no fused kernels."""
    model, lora = spec.model, spec.training.lora
    rotated = 2 * (model.num_attention_heads + model.num_query_groups) * model.kv_channels
    extra = 2 * 4 * model.hidden_size + rotated  # both norms compute in FP32
    if spec.task == "lora" and lora.dropout:
        # Each adapter keeps its own dropped copy and a mask; the frozen layer keeps nothing of its input.
        widths = _linears(model)
        extra += 3 * sum(widths[name][0] for name in lora.target_modules or widths)
        extra -= 2 * (2 * model.hidden_size + model.ffn_hidden_size)
    return extra


def _params(spec: RunSpec) -> tuple[float, float]:
    """Parameters a GPU: those every data-parallel rank holds, and those of its experts."""
    model, layout = spec.model, spec.layout
    layers = model.num_layers / layout.pp
    embedding = model.vocab_size * model.hidden_size / layout.tp
    if layout.pp == 1 and not model.tied_embeddings:
        embedding *= 2
    dense = layers * model.attention_params / layout.tp + embedding
    if model.moe is None:
        return dense + layers * model.mlp_params / layout.tp, 0
    return dense, layers * model.mlp_params * model.moe.num_experts / (layout.ep * layout.etp)


def _activations(spec: RunSpec) -> float:
    """Bytes kept from the forward to the backward pass."""
    layout, recompute = spec.layout, spec.training.recompute
    tokens = spec.mbs * spec.seq_length / layout.cp
    layers = spec.model.num_layers / layout.pp
    # 1F1B: the first stage holds pp micro-batches; interleaving holds a little more.
    in_flight = float(min(spec.num_microbatches, layout.pp))
    if layout.vp > 1:
        in_flight *= 1 + (layout.pp - 1) / (layout.pp * layout.vp)
    kept, inputs = _layer_bytes(spec), 2 * spec.model.hidden_size / _sequence_split(spec)
    if recompute.granularity == "full":
        count = layers if recompute.method == "uniform" else min(recompute.num_layers or 0, layers)
        # What is recomputed keeps its input, and one layer at a time its whole.
        per_token = (layers - count) * kept + count * inputs + kept / max(in_flight, 1)
    else:
        per_token = layers * kept
    width = 2 if spec.precision == "fp32" else 1
    return tokens * per_token * in_flight * width


def _sequence_split(spec: RunSpec) -> int:
    return spec.layout.tp if spec.layout.sequence_parallel else 1


def _layer_bytes(spec: RunSpec) -> float:
    """Bytes a token and layer, activations in two bytes: norms, attention, MLP."""
    model, layout = spec.model, spec.layout
    whole = 4 * 2 * model.hidden_size / _sequence_split(spec)  # two norms' inputs and outputs
    heads = 2 * model.num_attention_heads + 2 * model.num_query_groups
    attention = 2 * heads * model.kv_channels / layout.tp  # Q, K, V and the output of attention
    up = 2 if model.gated else 1
    if model.moe is None:
        eager = _eager_bytes(spec) if spec.framework == "hf" else 0
        return whole + attention + 2 * (up + 1) * model.ffn_hidden_size / layout.tp + eager
    # Each token is copied to topk experts: input, up-projection, activation, output.
    expert = 2 * (2 * model.hidden_size + (up + 1) * model.moe.ffn_hidden_size / layout.etp)
    return whole + attention + model.moe.topk * expert


def _logits(spec: RunSpec) -> float:
    """Logits in two bytes and their softmax in four, where the first stage is also the last."""
    if spec.layout.pp > 1:
        return 0.0
    tokens = spec.mbs * spec.seq_length / spec.layout.cp
    return tokens * spec.model.vocab_size / spec.layout.tp * 6


def warning(spec: RunSpec) -> str | None:
    """What to say before a job that may run out of GPU memory; None where there is nothing to say."""
    gpu = hardware.gpu(spec.gpu)
    total = estimate(spec).total
    if gpu is None or total <= NEARLY_FULL * gpu.memory_gib:
        return None
    return f"{spec.recipe} needs about {total:.0f} GiB a GPU, and {spec.gpu} has {gpu.memory_gib:g}"
