"""The models that the published numbers are about; dimensions from their release, as NeMo 2.4 states them."""

from typing import Any

from benchrun.model import ModelShape, Moe


def shape(
    layers: Any,
    hidden: Any,
    ffn: Any,
    heads: Any,
    groups: Any,
    vocab: Any,
    activation: Any = "swiglu",
    *,
    head_width: Any = 128,
    experts: Any = 0,
) -> Any:
    return ModelShape(
        num_layers=layers,
        hidden_size=hidden,
        ffn_hidden_size=ffn,
        num_attention_heads=heads,
        num_query_groups=groups,
        kv_channels=head_width,
        vocab_size=vocab,
        max_position_embeddings=8192,
        activation=activation,
        moe=Moe(num_experts=experts, topk=2, ffn_hidden_size=ffn) if experts else None,
    )


MODELS = {
    "llama3.1-8b": shape(32, 4096, 14336, 32, 8, 128256),
    "llama3.1-70b": shape(80, 8192, 28672, 64, 8, 128256),
    "llama3.1-405b": shape(126, 16384, 53248, 128, 8, 128256),
    # The launcher of 2024 gave it 16 key/value heads.
    "llama3.1-405b-kv16": shape(126, 16384, 53248, 128, 16, 128256),
    "nemotron4-15b": shape(32, 6144, 24576, 48, 8, 256000, "squared-relu"),
    "nemotron4-340b": shape(96, 18432, 73728, 96, 8, 256000, "squared-relu", head_width=192),
    "gpt3-175b": shape(96, 12288, 49152, 96, 96, 51200, "gelu"),
    "mixtral-8x7b": shape(32, 4096, 14336, 32, 8, 32000, experts=8),
    "grok1-314b": shape(64, 6144, 32768, 48, 8, 131072, "geglu", experts=8),
    # NVIDIA's stand-in for Grok uses the tokenizer of Llama 3.
    "grok1-proxy": shape(64, 6144, 32768, 48, 8, 128256, "geglu", experts=8),
    "llama2-7b": shape(32, 4096, 11008, 32, 32, 32000),
    "llama2-13b": shape(40, 5120, 13824, 40, 40, 32000),
    "llama2-70b": shape(80, 8192, 28672, 64, 8, 32000),
}
