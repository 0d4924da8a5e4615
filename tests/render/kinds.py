"""Every kind of model that the frameworks are asked to train, as recipes of their own; some with half of the layers."""

from pathlib import Path

from benchrun.recipes import catalogue
from benchrun.recipes.resolve import resolve_point
from benchrun.runspec.spec import RunSpec

SHAPES = {
    "llama": """{num_layers: 40, hidden_size: 8192, ffn_hidden_size: 28672, num_attention_heads: 64,
      num_query_groups: 8, kv_channels: 128, vocab_size: 128256, max_position_embeddings: 8192, rotary_base: 500000}""",
    "nemotron": """{num_layers: 32, hidden_size: 6144, ffn_hidden_size: 24576, num_attention_heads: 48,
      num_query_groups: 8, kv_channels: 128, vocab_size: 256000, max_position_embeddings: 8192,
      activation: squared-relu, normalization: LayerNorm1p, rotary_percent: 0.5}""",
    "gpt3": """{num_layers: 48, hidden_size: 12288, ffn_hidden_size: 49152, num_attention_heads: 96,
      num_query_groups: 96, kv_channels: 128, vocab_size: 51200, max_position_embeddings: 8192,
      activation: gelu, normalization: LayerNorm, position_embedding: learned, bias: true, tied_embeddings: true}""",
    "grok": """{num_layers: 64, hidden_size: 6144, ffn_hidden_size: 32768, num_attention_heads: 48, num_query_groups: 8,
      kv_channels: 128, vocab_size: 131072, max_position_embeddings: 8192, activation: geglu,
      moe: {num_experts: 8, topk: 2, ffn_hidden_size: 32768, capacity_factor: 1.0}}""",
    "mixtral": """{num_layers: 32, hidden_size: 4096, ffn_hidden_size: 14336, num_attention_heads: 32,
      num_query_groups: 8, kv_channels: 128, vocab_size: 32000, max_position_embeddings: 8192, rotary_base: 1000000,
      moe: {num_experts: 8, topk: 2, ffn_hidden_size: 14336, force_balance: true}}""",
    # What the models of today have, in smaller sizes.
    "deepseek": """{num_layers: 61, hidden_size: 4096, ffn_hidden_size: 12288, num_attention_heads: 64,
      num_query_groups: 64, kv_channels: 128, vocab_size: 129280, max_position_embeddings: 8192, mtp_layers: 1,
      rope_scaling: {kind: yarn, factor: 40, original_positions: 4096},
      mla: {q_lora_rank: 1536, kv_lora_rank: 512, qk_head_dim: 128, qk_pos_emb_head_dim: 64, v_head_dim: 128},
      moe: {num_experts: 64, topk: 8, ffn_hidden_size: 2048, shared_ffn_hidden_size: 2048, leading_dense_layers: 3,
        sigmoid: true, expert_bias: true, num_groups: 8, topk_groups: 4, scaling_factor: 2.5, balance: seq_aux_loss,
        force_balance: true}}""",
    "qwen": """{num_layers: 48, hidden_size: 2048, ffn_hidden_size: 6144, num_attention_heads: 32, num_query_groups: 8,
      kv_channels: 128, vocab_size: 151936, max_position_embeddings: 8192, qk_norm: weighted, qkv_bias: true,
      moe: {num_experts: 128, topk: 8, ffn_hidden_size: 768, force_balance: true}}""",
    "llama4": """{num_layers: 48, hidden_size: 5120, ffn_hidden_size: 16384, num_attention_heads: 40,
      num_query_groups: 8, kv_channels: 128, vocab_size: 202048, max_position_embeddings: 8192, no_rope_every: 4,
      qk_norm: l2, rope_scaling: {kind: llama3, factor: 8, original_positions: 8192},
      moe: {num_experts: 16, topk: 1, ffn_hidden_size: 8192, shared_ffn_hidden_size: 8192, every: 2, sigmoid: true,
        probs_on_input: true}}""",
    "gpt-oss": """{num_layers: 24, hidden_size: 2880, ffn_hidden_size: 2880, num_attention_heads: 64,
      num_query_groups: 8, kv_channels: 64, vocab_size: 201088, max_position_embeddings: 131072, bias: true,
      activation: clamped-swiglu, attention_sinks: true, window: {size: 128, full_every: 2},
      rope_scaling: {kind: yarn, factor: 32, original_positions: 4096},
      moe: {num_experts: 32, topk: 4, ffn_hidden_size: 2880, balance: none, aux_loss_coeff: 0.0}}""",
    "hybrid": """{num_layers: 8, hidden_size: 4096, ffn_hidden_size: 2688, num_attention_heads: 32, num_query_groups: 8,
      kv_channels: 128, vocab_size: 131072, max_position_embeddings: 8192, activation: squared-relu,
      position_embedding: none, mtp_layers: 1,
      mamba: {pattern: "MEME*EM-", num_heads: 128, head_dim: 64, state_dim: 128, num_groups: 8},
      moe: {num_experts: 64, topk: 6, ffn_hidden_size: 2688, shared_ffn_hidden_size: 5376, latent_size: 1024,
        sigmoid: true, expert_bias: true, scaling_factor: 5.0}}""",
}
OF_TODAY = {
    "deepseek": ("layout.tp=2", "layout.sequence_parallel=true", "layout.pp=8", "layout.vp=4", "layout.ep=32"),
    "qwen": ("layout.tp=4", "layout.pp=8", "layout.sequence_parallel=true", "layout.ep=8", "layout.etp=4"),
    "llama4": ("layout.tp=4", "layout.sequence_parallel=true", "layout.vp=12", "layout.pp=2", "layout.ep=16"),
    "gpt-oss": ("layout.pp=4", "layout.ep=8"),
    "hybrid": ("layout.ep=64", "layout.tp=2", "layout.sequence_parallel=true"),
}
"""Layouts of models of today on 512 GPUs."""
OF_TODAY["deepseek"] += ("layout.stages=Et|(tt|)*30mL",)
IMAGES = {
    "nemo1": "nvcr.io/nvidia/nemo:24.09",
    "nemo2": "nvcr.io/nvidia/nemo:25.07.01",
    "megatron-lm": "nvcr.io/nvidia/nemo:25.07.01",
    "megatron-core": "nvcr.io/nvidia/nemo:25.07.01",
    "megatron-bridge": "nvcr.io/nvidia/nemo:25.11.01",
    "maxtext": "ghcr.io/nvidia/jax:maxtext-2024-12-09",
    "paxml": "ghcr.io/nvidia/jax:pax-2024-03-04",
}
SPREAD = ("layout.tp=4", "layout.pp=8", "layout.sequence_parallel=true")
"""Enough for the largest of them on 512 GPUs."""


def spec(
    folder: Path,
    kind: str,
    framework: str,
    *overrides: str,
    task: str = "pretrain",
    precision: str = "fp8",
    gpu: str = "H200",
) -> RunSpec:
    """512 GPUs with a model of this kind: the largest fit H200 without recompute."""
    recipe = f"""
description: {kind}
task: {task}
model: {SHAPES[kind]}
seq_length: 8192
frameworks: {{{framework}: {{image: "{IMAGES[framework]}"}}}}
points:
  - {{gpu: {gpu}, precision: {precision}, num_gpus: 512, mbs: 1, gbs: 512, derived: a test}}
"""
    path = folder / f"{kind}.yaml"
    path.write_text(recipe)
    file = catalogue.recipe_file(str(path))
    site = "hgx-h200" if gpu == "H200" else None
    return resolve_point(file, catalogue.points(file.recipe)[0], site, overrides)
