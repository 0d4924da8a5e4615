"""TrainingSpec -> transformers' Llama with random weights, sharded over all ranks.

The model is built on the meta device, sharded, then filled in place: no rank ever has
the whole weights. Frozen weights are BF16; trained weights, gradients and Adam's states
are FP32. All are gathered in BF16 for the computation, as accelerate's FSDP does for
Trainer with ``bf16``.
"""

import math
from functools import partial
from typing import Any

import torch
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor
from transformers import LlamaConfig, LlamaForCausalLM

from benchrun.model import ModelShape
from benchrun.model.adapters import LLAMA_LINEARS
from benchrun.runspec.spec import TrainingSpec
from benchrun.worker import offload
from benchrun.worker.data import seed_of

BLOCK = 64
"""Rows drawn with one seed, so that the numbers do not depend on the shards."""


def llama_config(model: ModelShape) -> Any:
    """transformers' configuration of ``model``."""
    return LlamaConfig(
        vocab_size=model.vocab_size,
        hidden_size=model.hidden_size,
        intermediate_size=model.ffn_hidden_size,
        num_hidden_layers=model.num_layers,
        num_attention_heads=model.num_attention_heads,
        num_key_value_heads=model.num_query_groups,
        head_dim=model.kv_channels,
        max_position_embeddings=model.max_position_embeddings,
        rope_theta=float(model.rotary_base),
        attention_bias=model.bias,
        mlp_bias=model.bias,
        tie_word_embeddings=model.tied_embeddings,
        initializer_range=model.init_method_std,
        attn_implementation="sdpa",
        use_cache=False,
    )


def build_model(spec: TrainingSpec, device: torch.device) -> Any:
    """This rank's shards of the model on ``device``, with adapters if the task is lora."""
    config = llama_config(spec.model)
    with torch.device("meta"):
        model = LlamaForCausalLM(config)
    llama = model.model
    if spec.task == "lora":
        model = _with_adapters(spec, model)
    _checkpoint_layers(spec, llama)
    _shard(spec, model, llama, device)
    if spec.training.offload_activations:
        offload.install(llama.layers, gpu=spec.gpu != "CPU")
    model.to_empty(device=device)
    if spec.model.tied_embeddings:
        model.tie_weights()
    # Its frequencies are computed at construction and lost on the meta device.
    llama.rotary_emb = type(llama.rotary_emb)(config).to(device)
    initialise(spec.training.seed, model)
    return model


def _with_adapters(spec: TrainingSpec, model: Any) -> Any:
    """``model`` with peft's LoRA, whose weights stay FP32; every other weight is
    frozen."""
    from peft import LoraConfig, get_peft_model

    lora = spec.training.lora
    config = LoraConfig(
        r=lora.rank,
        lora_alpha=lora.alpha,
        lora_dropout=lora.dropout,
        target_modules=list(lora.target_modules or LLAMA_LINEARS),
        bias="none",
        task_type="CAUSAL_LM",
    )
    frozen = model if spec.precision == "fp32" else model.to(torch.bfloat16)
    return get_peft_model(frozen, config)


def _checkpoint_layers(spec: TrainingSpec, llama: Any) -> None:
    """Recompute whole layers: all (uniform) or the first ``num_layers`` (block)."""
    recompute = spec.training.recompute
    if recompute.granularity == "none":
        return
    count = recompute.num_layers if recompute.method == "block" else len(llama.layers)
    for index in range(count or 0):
        # Inside the layer's shard, so that its weights are gathered once for
        # recomputation and backward pass.
        llama.layers[index] = checkpoint_wrapper(llama.layers[index])


def _shard(spec: TrainingSpec, model: Any, llama: Any, device: torch.device) -> None:
    """FSDP over all ranks, one unit per layer, and one per embedding unless they share
    their matrix."""
    # One input is the number of trained tokens, which BF16 would round.
    precision = MixedPrecisionPolicy(cast_forward_inputs=False)
    if spec.precision != "fp32":
        precision = MixedPrecisionPolicy(
            torch.bfloat16, reduce_dtype=torch.float32, cast_forward_inputs=False
        )
    unit = partial(
        fully_shard, mesh=init_device_mesh(device.type, (spec.num_gpus,)), mp_policy=precision
    )
    for layer in llama.layers:
        unit(layer)
    if not spec.model.tied_embeddings:
        unit(llama.embed_tokens)
        # The last unit forward is the first one backward: it stays gathered.
        unit([llama.norm, model.get_output_embeddings()], reshard_after_forward=False)
    unit(model)


@torch.no_grad()
def initialise(seed: int, model: Any) -> None:
    """Fill the shards with weights that depend neither on the number of ranks nor on
    adapters."""
    for name, parameter in model.named_parameters():
        for part in ("base_model.model.", ".base_layer", "_checkpoint_wrapped_module."):
            name = name.replace(part, "")
        if "lora_B" in name or name.endswith("bias"):
            parameter.to_local().zero_()
        elif parameter.dim() == 1:
            parameter.to_local().fill_(1)
        else:
            # The standard deviation of peft's uniform distribution; here normal.
            std = (
                1 / math.sqrt(3 * parameter.shape[1])
                if "lora_A" in name
                else ModelShape.init_method_std
            )
            _draw(parameter, std, seed_of(seed, name))


def _draw(parameter: DTensor, std: float, seed: int) -> None:
    """Fill this rank's rows with normal numbers; each block of rows of the whole matrix
    has its own seed."""
    local = parameter.to_local()
    mesh = parameter.device_mesh
    # FSDP: ceil(rows / ranks) for each rank.
    first = mesh.get_local_rank() * -(-parameter.shape[0] // mesh.size())
    end = first + local.shape[0]
    generator = torch.Generator(device=local.device)
    for start in range(first // BLOCK * BLOCK, end, BLOCK):
        generator.manual_seed(seed + start)
        block = torch.empty(BLOCK, local.shape[1], device=local.device).normal_(generator=generator)
        low = max(start, first)
        high = min(start + BLOCK, end)
        local[low - first : high - first] = block[low - start : high - start] * std
