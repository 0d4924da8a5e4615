"""The configuration that MaxText prints before it trains: ``Config param NAME: VALUE``,
in the order of the names.

What a parameter means depends on others, so that all are read together. Source:
AI-Hypercomputer/maxtext configs/base.yml, configs/types.py and layers of 2024 to 2026.
"""

from collections.abc import Mapping

from benchrun.frameworks.latent import LATENT, experts_beside, latent_attention
from benchrun.frameworks.options import is_off, take_option
from benchrun.logs.numerals import count
from benchrun.logs.records import Facts

FAMILY = "maxtext"
_SIZES = {
    "steps": "planned_steps",
    "max_target_length": "seq_length",
    "global_batch_size_to_train_on": "gbs",
    "num_decoder_layers": "num_layers",
    "emb_dim": "hidden_size",
    "mlp_dim": "ffn_hidden_size",
    "num_query_heads": "num_attention_heads",
    "num_kv_heads": "num_query_groups",
    "head_dim": "kv_channels",
    "vocab_size": "vocab_size",
}
OWN_EXPERTS = frozenset({"deepseek", "qwen3_moe"})
"""Blocks whose experts have a width of their own; those of others have that of the MLP.
"""
UNSET = 7168
"""``moe_mlp_dim`` if nobody set it, until 2025."""
_RELATED = frozenset(
    {
        "num_experts",
        "num_experts_per_tok",
        "moe_mlp_dim",
        "mlp_dim",
        "decoder_block",
        "attention_type",
        "shared_experts",
        "first_num_dense_layers",
        "interleave_moe_layer_step",
        "sliding_window_size",
        "num_decoder_layers",
        "mtp_num_layers",
        *LATENT,
    }
)
"""Parameters that mean something together."""


def take_parameter(config: dict[str, str], name: str, value: str, facts: Facts) -> None:
    """Add one parameter to ``config``, and what now follows from it to ``facts``."""
    config[name] = value
    if name in _SIZES and value.isdigit():
        facts.take(_SIZES[name], count(value))
    if name in ("dtype", "quantization"):
        facts.switch(name, value)
    elif name == "hardware" and value in ("tpu", "cpu"):
        facts.device = value
    elif name == "mlp_activations":
        facts.gated = "linear" in value
    elif name not in _RELATED:
        take_option(FAMILY, name, value, facts)
    if name in _RELATED:
        others = {}
        for each, text in (facts.options or {}).items():
            if each not in _REPLACED:
                others[each] = text
        facts.options = others
        _experts(config, facts)
        _attention(config, facts)


def _experts(config: Mapping[str, str], facts: Facts) -> None:
    experts = count(config.get("num_experts")) or 1
    if experts == 1:
        return
    separate = config.get("decoder_block") in OWN_EXPERTS
    widths = {name: count(config.get(name)) for name in ("moe_mlp_dim", "mlp_dim")}
    width = widths["moe_mlp_dim" if separate else "mlp_dim"]
    if not separate and widths["moe_mlp_dim"] not in (None, UNSET, width):
        facts.add_options({"moe_mlp_dim": config["moe_mlp_dim"]})
    facts.num_experts, facts.moe_ffn_hidden_size = experts, width or None
    facts.topk = count(config.get("num_experts_per_tok")) or None
    if not separate:
        return
    shared = count(config.get("shared_experts")) or 0
    dense = count(config.get("first_num_dense_layers")) or 0
    layers = count(config.get("num_decoder_layers")) or 0
    stated = experts_beside(shared * (width or 0), dense, layers)
    if layers <= dense:
        del stated["moe_layer_freq"]
    facts.add_options(stated)


def _attention(config: Mapping[str, str], facts: Facts) -> None:
    kind = config.get("attention_type", "global")
    stated = latent_attention(config) if kind == "mla" else {}
    if "attention_type" in config:
        stated["multi_latent_attention"] = str(kind == "mla")
    if kind == "local_sliding" and (size := count(config.get("sliding_window_size"))):
        stated["window_size"] = f"({size - 1}, 0)"
    elif kind not in ("global", "mla", "full"):
        stated["attention_type"] = kind
    step = config.get("interleave_moe_layer_step", "1")
    if step != "1":
        stated["interleave_moe_layer_step"] = step
    if "mtp_num_layers" in config:
        stated["mtp_num_layers"] = config["mtp_num_layers"]
    block = config.get("decoder_block", "default")
    take_option(FAMILY, "decoder_block", block, facts)
    if stated.get("q_lora_rank") and is_off(stated["q_lora_rank"]):
        stated["q_lora_rank"] = "None"
    facts.add_options(stated)


_REPLACED = frozenset({"attention_type", "window_size", "interleave_moe_layer_step", "moe_mlp_dim"})
"""Options that a later parameter may take back."""
