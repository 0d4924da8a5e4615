"""What the Hugging Face fine-tune cannot do, said before a job waits for it.

It builds a Llama of transformers, shards it with FSDP over all ranks and has no other parallelism. Mistral is the same
model there but for a sliding window, which is longer than what it is trained on here.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchrun.recipe.draft import Draft

TARGETS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
"""The linear layers of a block, as transformers names them."""


def transformers_refusals(draft: Draft, num_gpus: int) -> Iterator[str]:
    """Every reason why ``draft`` cannot run there."""
    layout, recompute = draft.layout, draft.training.recompute
    if layout.fsdp not in (1, num_gpus):
        yield f"hf shards over all ranks: fsdp ({layout.fsdp}) must be {num_gpus}, or 1 as where nothing is said"
    for name in ("distributed_optimizer", "overlap_grad_reduce", "overlap_param_gather"):
        if not getattr(draft.training, name):
            yield f"hf leaves it to FSDP: training.{name} must be true"
    for name in ("tp", "pp", "cp", "vp", "ep", "etp"):
        if getattr(layout, name) > 1:
            yield f"hf shards by FSDP alone: {name} ({getattr(layout, name)}) must be 1"
    yield from _model(draft)
    if recompute.granularity == "selective":
        yield "hf recomputes whole layers: recompute.granularity must be none or full, not selective"
    if recompute.method == "uniform" and recompute.num_layers != 1:
        yield f"hf recomputes layer by layer: recompute.num_layers ({recompute.num_layers}) must be 1 with uniform"
    unknown = [name for name in draft.training.lora.target_modules if name not in TARGETS]
    if unknown:
        yield f"no layer of a Llama is called {', '.join(unknown)}; lora.target_modules could be {', '.join(TARGETS)}"


def _model(draft: Draft) -> Iterator[str]:
    model = draft.model
    if model.moe is not None:
        yield "hf trains dense models: this one has experts; use megatron-core"
    wanted = {"activation": "swiglu", "normalization": "RMSNorm", "position_embedding": "rope", "rotary_percent": 1.0}
    for name, value in wanted.items():
        if getattr(model, name) != value:
            yield f"hf trains Llama and its kin: {name} must be {value}, not {getattr(model, name)}"
    if model.hidden_size % model.num_attention_heads:
        heads = model.num_attention_heads
        yield f"transformers wants hidden_size ({model.hidden_size}) to be a multiple of num_attention_heads ({heads})"
