"""Every kind of model that the frameworks are asked to train, as recipes of their own; some with half of the layers."""

from pathlib import Path

from benchrun.recipe import catalogue
from benchrun.recipe.resolve import resolve_point
from benchrun.spec.runspec import RunSpec

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
}
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
    folder: Path, kind: str, framework: str, *overrides: str, task: str = "pretrain", precision: str = "fp8"
) -> RunSpec:
    """512 H200 with a model of this kind: the largest fit without recompute."""
    recipe = f"""
description: {kind}
task: {task}
model: {SHAPES[kind]}
seq_length: 8192
frameworks: {{{framework}: {{image: "{IMAGES[framework]}"}}}}
points:
  - {{gpu: H200, precision: {precision}, num_gpus: 512, mbs: 1, gbs: 512, derived: a test}}
"""
    path = folder / f"{kind}.yaml"
    path.write_text(recipe)
    file = catalogue.recipe_file(str(path))
    return resolve_point(file, catalogue.points(file.recipe)[0], "hgx-h200", overrides)
