"""An estimate of the memory a GPU needs, by part, before the job waits in a queue.

Counts the pipeline stage that needs most: the first holds most micro-batches in flight and the embedding, the last has
the output layer and the logits. Flash attention is assumed: no S x S matrix is kept, so that recomputing
attention saves nothing here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from benchrun import hardware
from benchrun.frameworks.registry import framework
from benchrun.recipe import activations, memory_hf
from benchrun.spec.runspec import RunSpec
from benchrun.spec.training import Recompute

GIB = 2**30
NEARLY_FULL = 0.9
ESTIMATE_ERROR = 0.1
"""How far the estimate may be from the peak, as a fraction of it. No peak that was measured on H100 and H200 is further
off (tests/recipe/test_memory.py, test_hf.py): the worst estimates are 6 % too low and 2 % too high."""


@dataclass(frozen=True)
class Memory:
    """GiB a GPU."""

    weights: float
    gathered: float
    """What FSDP puts together again: the layer at work and the next one."""
    gradients: float
    optimizer: float
    activations: float
    logits: float
    placeholders: float
    """What stands in autograd's hands for gradients that are added elsewhere: a matrix of each shape, kept for good."""
    step: float
    """What the optimizer's step makes and drops again, beyond the room that activations and logits have left."""

    @property
    def states(self) -> float:
        """What is there between two steps: plain arithmetic, no estimate."""
        return self.weights + self.gradients + self.optimizer

    @property
    def total(self) -> float:
        """Sum of the parts; the framework and NCCL take some GiB more."""
        return self.states + self.gathered + self.activations + self.logits + self.placeholders + self.step

    def parts(self) -> dict[str, float]:
        """The parts and their total, rounded to 0.01 GiB."""
        return {name: round(value, 2) for name, value in {**asdict(self), "total": self.total}.items()}


def estimate(spec: RunSpec) -> Memory:
    """Memory a GPU of ``spec`` on the stage that needs most, in GiB."""
    if framework(spec.framework).memory.fully_sharded:
        return Memory(**{part: size / GIB for part, size in memory_hf.fully_sharded(spec).items()})
    stages = (True, False) if spec.layout.pp > 1 else (True,)
    return max((_stage(spec, first) for first in stages), key=lambda memory: memory.total)


def _stage(spec: RunSpec, first: bool) -> Memory:
    """Memory of the first or of the last pipeline stage."""
    layers = activations.stage_layers(spec)
    dense, expert = layers * _dense(spec), layers * _expert(spec)
    ends = _embedding(spec) * (1 if spec.layout.pp > 1 or spec.model.tied_embeddings else 2)
    cut, expert_cut = _shards(spec)
    held = (dense + ends) / cut + expert / expert_cut
    trained = _adapters(spec) * layers if spec.task == "lora" else held
    fp8_copies = held - ends / cut if spec.precision == "fp8" and not spec.training.fp8.param_gather else 0
    own, own_expert = _optimizer_shards(spec)
    states = trained / own if spec.task == "lora" else (dense + ends) / own + expert / own_expert
    kept = activations.kept(spec, first)
    logits = activations.logits(spec) if not first or spec.layout.pp == 1 else 0.0
    step = states * _gradient_copy(spec) + (states - ends / own) * _weight_copy(spec) + _moments_at_a_time(spec, states)
    return Memory(
        weights=(held * _weight_bytes(spec) + 2 * fp8_copies) / GIB,
        gathered=_gathered(spec) / GIB,
        gradients=trained * _gradient_bytes(spec) / GIB,
        optimizer=states * _state_bytes(spec) / GIB,
        activations=kept / GIB,
        logits=logits / GIB,
        placeholders=_placeholders(spec, output=not first or spec.layout.pp == 1) / GIB,
        step=max(0.0, step - kept - logits) / GIB,
    )


def _weight_bytes(spec: RunSpec) -> int:
    """FP8 keeps two one-byte copies (plain and transposed), as much as BF16."""
    return 4 if spec.precision == "fp32" else 2


def _gradient_bytes(spec: RunSpec) -> int:
    return 4 if spec.precision == "fp32" or spec.training.grad_reduce_in_fp32 else 2


def _state_bytes(spec: RunSpec) -> int:
    """Adam: two moments, and a copy of the weights unless they are FP32 themselves."""
    optimizer = spec.training.optimizer
    size = {"fp32": 4, "bf16": 2, "fp16": 2}
    copy = 0 if spec.precision == "fp32" else size[optimizer.main_params]
    if optimizer.precision_aware and not _fp8_weights(spec):
        copy = 2  # only what a BF16 weight lacks of FP32
    return copy + size[optimizer.exp_avg] + size[optimizer.exp_avg_sq]


def _placeholders(spec: RunSpec, output: bool) -> float:
    """Bytes of them, for the matrices of a layer and for the output layer.

    Source: get_dummy_wgrad in transformer-engine 2.11, which megatron.core's own linear layers call as well.
    """
    if spec.task == "lora" or framework(spec.framework).memory.planned_by_xla or spec.gpu == "CPU":
        return 0.0
    return 2 * sum(_matrices(spec, output))


def _matrices(spec: RunSpec, output: bool) -> list[float]:
    """Elements of a layer's matrices, each shape once, and of the output layer's."""
    model, tp = spec.model, spec.layout.tp
    hidden, queries = model.hidden_size, model.num_attention_heads * model.kv_channels
    inner = model.moe.ffn_hidden_size / spec.layout.etp if model.moe else model.ffn_hidden_size / tp
    shapes = {
        ((queries + 2 * model.num_query_groups * model.kv_channels) / tp, hidden),
        (hidden, queries / tp),
        ((2 if model.gated else 1) * inner, hidden),
        (hidden, inner),
    }
    if output:
        shapes.add((model.vocab_size / tp, hidden))
    return [rows * columns for rows, columns in shapes]


def _gradient_copy(spec: RunSpec) -> int:
    """Bytes a trained parameter: megatron.core's Adam takes gradients in FP32, unless it is the precision-aware one."""
    xla = framework(spec.framework).memory.planned_by_xla
    as_they_are = xla or (spec.training.optimizer.precision_aware and not _fp8_by_core(spec))
    return 0 if _gradient_bytes(spec) == 4 or as_they_are else 4


def _weight_copy(spec: RunSpec) -> int:
    """The same of an FP8 weight, which transformer-engine makes of a BF16 copy, all at a time."""
    if not _fp8_weights(spec) or spec.task == "lora" or framework(spec.framework).memory.planned_by_xla:
        return 0
    return 2 if not spec.training.optimizer.precision_aware or _fp8_by_core(spec) else 0


def _moments_at_a_time(spec: RunSpec, states: float) -> float:
    """Bytes of moments that Adam makes FP32 for its step: in the worker those of a few weights, or of a large one.

    Source: FusedAdam.get_unscaled_state in transformer-engine 2.11. Not counted for frameworks that were not measured.
    """
    optimizer, at_a_time = spec.training.optimizer, framework(spec.framework).memory.moments_at_a_time
    if not optimizer.precision_aware or not at_a_time:
        return 0.0
    lower = 2 - [optimizer.exp_avg, optimizer.exp_avg_sq].count("fp32")
    return 4 * lower * min(max(at_a_time, *_matrices(spec, output=True)), states)


def _fp8_weights(spec: RunSpec) -> bool:
    return spec.precision == "fp8" and spec.training.fp8.param_gather


def _fp8_by_core(spec: RunSpec) -> bool:
    """The precision-aware Adam writes FP8 weights under delayed scaling alone; else megatron.core makes them."""
    return _fp8_weights(spec) and spec.training.fp8.recipe != "delayed"


def _dense(spec: RunSpec) -> float:
    """Parameters a layer and GPU that every data-parallel rank has, before FSDP."""
    model = spec.model
    return (model.attention_params + (0 if model.moe else model.mlp_params)) / spec.layout.tp


def _expert(spec: RunSpec) -> float:
    """Parameters a layer and GPU of its experts, before FSDP."""
    moe, layout = spec.model.moe, spec.layout
    return spec.model.mlp_params * moe.num_experts / (layout.ep * layout.etp) if moe else 0.0


def _embedding(spec: RunSpec) -> float:
    return spec.model.vocab_size * spec.model.hidden_size / spec.layout.tp


def _adapters(spec: RunSpec) -> float:
    """Adapter parameters a layer and GPU: rank x (inputs + outputs) of each linear layer that has one."""
    model, lora = spec.model, spec.training.lora
    query, key = model.num_attention_heads * model.kv_channels, model.num_query_groups * model.kv_channels
    hidden, inner = model.hidden_size, model.ffn_hidden_size
    widths = {
        "linear_qkv": hidden + query + 2 * key,
        "linear_proj": query + hidden,
        "linear_fc1": hidden + (2 if model.gated else 1) * inner,
        "linear_fc2": inner + hidden,
    }
    named = [name for name in lora.target_modules if name in widths]
    return lora.rank * sum(widths[name] for name in named or widths) / spec.layout.tp


def _shards(spec: RunSpec) -> tuple[float, float]:
    """Over how many ranks weights and gradients are cut: dense ones, and those of experts."""
    cut = spec.layout.fsdp
    return cut, max(1.0, cut / spec.layout.ep)


def _optimizer_shards(spec: RunSpec) -> tuple[float, float]:
    if spec.layout.fsdp > 1 or not spec.training.distributed_optimizer:
        return _shards(spec)
    layout = spec.layout
    return spec.dp * layout.cp, spec.num_gpus // (layout.ep * layout.etp * layout.pp)


def _gathered(spec: RunSpec) -> float:
    """Bytes of whole weights, two layers at a time, and of one layer's gradients before they are cut up."""
    if spec.layout.fsdp == 1:
        return 0.0
    gradients = 0 if spec.task == "lora" else _gradient_bytes(spec)
    return (_dense(spec) + _expert(spec)) * (2 * _weight_bytes(spec) + gradients)


def impossible(spec: RunSpec) -> str | None:
    """What is wrong where a run cannot fit, even if the estimate errs; None where it may, or the GPU is not listed."""
    gpu, memory = hardware.gpu(spec.gpu), estimate(spec)
    if gpu is None:
        return None
    if memory.states > gpu.memory_gib:
        return (
            f"weights, gradients and optimizer states alone take {memory.states:.0f} GiB a GPU, and {spec.gpu} has "
            f"{gpu.memory_gib:g}: spread them over more GPUs (tp, pp, fsdp, more data-parallel ranks)"
        )
    if memory.total <= gpu.memory_gib * (1 + ESTIMATE_ERROR):
        return None
    instead = [f"{what} would need {size:.0f}" for what, size in _smaller(spec, gpu.memory_gib)]
    spread = "spread the model over more GPUs (tp, pp, cp, fsdp)"
    advice = f"{', '.join(instead)}, or {spread}" if instead else spread
    return (
        f"it needs about {memory.total:.0f} GiB a GPU, and {spec.gpu} has {gpu.memory_gib:g}; the estimate is at most "
        f"{ESTIMATE_ERROR:.0%} off: {advice}"
    )


def _smaller(spec: RunSpec, room: float) -> Iterator[tuple[str, float]]:
    """Changes that would fit into ``room`` GiB on the same GPUs, with what they would need in GiB."""
    full = Recompute(granularity="full", method="uniform", num_layers=1)
    changes: list[tuple[str, dict[str, Any]]] = [
        ("full recompute", {"training": spec.training.model_copy(update={"recompute": full})}),
    ]
    if framework(spec.framework).memory.micro_batches:
        smaller = [mbs for mbs in range(spec.mbs // 2, 0, -1) if spec.mbs % mbs == 0]
        more = {mbs: spec.num_microbatches * spec.mbs // mbs for mbs in smaller}
        changes += [(f"mbs {mbs}", {"mbs": mbs, "num_microbatches": more[mbs]}) for mbs in smaller]
    for what, update in changes:
        size = estimate(spec.model_copy(update=update)).total
        if size <= room:
            yield what, size
            if what.startswith("mbs"):
                return  # the largest that fits


def warning(spec: RunSpec) -> str | None:
    """What to say before a job that may run out of GPU memory; None where there is nothing to say."""
    gpu = hardware.gpu(spec.gpu)
    total = estimate(spec).total
    if gpu is None or total <= NEARLY_FULL * gpu.memory_gib:
        return None
    return f"{spec.recipe} needs about {total:.0f} GiB a GPU, and {spec.gpu} has {gpu.memory_gib:g}"
