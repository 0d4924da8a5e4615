"""The model that torchtitan prints before it builds it, until version 0.2.1.

    Building llama3 8B with TransformerModelArgs(dim=4096, n_layers=32, n_heads=32, n_kv_heads=8, ..., multiple_of=1024)

Source: pytorch/torchtitan torchtitan/train.py and torchtitan/models/*/model/args.py of
0.1.0 and 0.2.0.
"""

import re
from collections.abc import Mapping

from benchrun.frameworks.latent import experts_beside, latent_attention
from benchrun.logs.numerals import count, number
from benchrun.logs.records import Facts

NEEDLES = (b" with TransformerModelArgs(", b" with ModelArgs(", b"V3ModelArgs(")
_BUILDING = re.compile(
    r"\bBuilding (?P<family>\w{1,40}) \S{1,40} with \w{0,40}ModelArgs\((?P<sizes>.{1,4000})\)"
)
_SIZE = re.compile(r"\b(\w{1,40})=([^,()\s]{1,60})")
_SIZES = {
    "dim": "hidden_size",
    "n_layers": "num_layers",
    "n_heads": "num_attention_heads",
    "n_kv_heads": "num_query_groups",
    "vocab_size": "vocab_size",
}
_EXPERTS = {"num_experts": "num_experts", "top_k": "topk", "moe_inter_dim": "moe_ffn_hidden_size"}


def read_model(text: str, facts: Facts) -> None:
    """Take the sizes of a line that announces a model."""
    building = _BUILDING.search(text)
    if building is None:
        return
    stated = dict(_SIZE.findall(building["sizes"]))
    _take(_SIZES, stated, facts)
    if building["family"].startswith("llama") and "multiple_of" in stated:
        facts.gated, facts.ffn_hidden_size = True, _width(stated)
    elif "kv_lora_rank" in stated:
        _take({"inter_dim": "ffn_hidden_size", **_EXPERTS}, stated, facts)
        facts.gated, facts.options = True, _parts(stated, facts)
    if stated.get("attn_mask_type", "'causal'").strip("'") != "causal":
        facts.add_options({"attn_mask_type": stated["attn_mask_type"].strip("'")})


def _take(names: Mapping[str, str], stated: Mapping[str, str], facts: Facts) -> None:
    for name, field in names.items():
        facts.take(field, count(stated.get(name)))


def _width(stated: Mapping[str, str]) -> int | None:
    """Inner width of Llama's MLP: two thirds of four times the width, scaled and
    rounded up.
    """
    dim, multiple = count(stated.get("dim")), count(stated.get("multiple_of"))
    if not dim or not multiple:
        return None
    width = int(2 * 4 * dim / 3)
    scale = number(stated.get("ffn_dim_multiplier"))
    width = width if scale is None else int(scale * width)
    return multiple * -(-width // multiple)


def _parts(stated: Mapping[str, str], facts: Facts) -> dict[str, str]:
    """DeepSeek's latent attention and experts, by Megatron-core's names."""
    shared = (count(stated.get("num_shared_experts")) or 0) * (facts.moe_ffn_hidden_size or 0)
    dense = count(stated.get("n_dense_layers")) or 0
    experts = experts_beside(shared, dense, facts.num_layers or 0)
    return {**latent_attention(stated), "multi_latent_attention": "True", **experts}
