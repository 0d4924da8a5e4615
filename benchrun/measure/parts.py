"""Parts of a model that a log states by its framework's arguments: latent attention,
predictions, experts, windows.

`Facts.options` has them by the names of Megatron-core. What is stated in full becomes
fields of a `ModelShape`; the rest is named as unknown, and takes the FLOPs of the log
away.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from benchrun.logs.records import FROZEN, Facts
from benchrun.model import ModelShape
from benchrun.model.parts import Mla, Window

_OFF = frozenset({"", "none", "null", "false", "0", "-1", "(-1, -1)", "[-1, -1]"})
_MLA = ("kv_lora_rank", "qk_head_dim", "qk_pos_emb_head_dim", "v_head_dim")
_DEPENDENT = frozenset({"q_lora_rank", *_MLA, "window_attn_skip_freq"})
"""Sizes of a part that another argument turns on."""
_EXPERTS = {
    "moe_shared_expert_intermediate_size": "shared_ffn_hidden_size",
    "moe_latent_size": "latent_size",
}
"""Argument of the mixture of experts -> field of `Moe`."""
_EXPERT_FIELDS = ("shared_ffn_hidden_size", "latent_size", "leading_dense_layers", "every")
_FREQUENCIES = ("moe_layer_freq", "moe_expert_interval", "expert_interval")
FIELDS = {
    "multi_latent_attention": "mla",
    "mtp_num_layers": "mtp_layers",
    "window_size": "window",
    **dict.fromkeys(
        (
            "is_hybrid_model",
            "hybrid_override_pattern",
            "hybrid_layer_pattern",
            "hybrid_attention_ratio",
            "hybrid_mlp_ratio",
            "mtp_hybrid_override_pattern",
        ),
        "mamba",
    ),
}
"""Argument -> the field of `ModelShape` that it fills."""


_SHARDS = (1, 2, 4, 8)
"""Ranks that usually share a model, beside all of them."""
_NEARLY_ALL = (0.75, 1.3)
"""Range of a model's parameters that count as all: tied embeddings are counted once, an
encoder may be frozen.
"""


@dataclass
class Parts:
    """Parts of a model that the arguments of a log state."""

    model: dict[str, Any] = field(default_factory=dict)
    """Fields of `ModelShape`; a part that the log states as not in use has its empty
    value.
    """
    moe: dict[str, Any] = field(default_factory=dict)
    """Fields of its `Moe`."""
    unknown: dict[str, str] = field(default_factory=dict)
    """Arguments that change the work and are not understood, with their values."""


def parts_of(facts: Facts) -> Parts:
    """The parts that ``facts.options`` state."""
    if facts.shape:
        return _of_shape(facts.shape)
    parts, options = Parts(), facts.options or {}
    for name, value in options.items():
        if name in _EXPERTS or name in _FREQUENCIES:
            _experts(name, value, facts, parts)
        elif name in FIELDS and _is_off(value):
            parts.model[FIELDS[name]] = 0 if name == "mtp_num_layers" else None
        elif name not in _DEPENDENT and (name, facts.task) != (FROZEN, "lora"):
            _used(name, value, options, parts)
    for name in parts.unknown:
        parts.model.pop(FIELDS.get(name, ""), None)
    return parts


def _of_shape(model: ModelShape) -> Parts:
    whole = {name: getattr(model, name) for name in dict.fromkeys(FIELDS.values())}
    return Parts(
        whole, {name: getattr(model.moe, name) for name in _EXPERT_FIELDS} if model.moe else {}
    )


def unknown_options(facts: Facts, model: ModelShape | None) -> dict[str, str]:
    """Arguments that change the work and are not understood, except parts that the
    stated ``model`` describes.
    """
    unknown = parts_of(facts).unknown
    found = {}
    for name, value in unknown.items():
        if not getattr(model, FIELDS.get(name, ""), None):
            found[name] = value
    return found


def untrained(facts: Facts, model: ModelShape | None, num_gpus: int | None) -> dict[str, str]:
    """The option for parameters of ``model`` that the log's number of trained ones
    leaves out; empty if none.

    A program that shards the model may count those of one rank: a stage, a node or all
    GPUs may share it.
    """
    trained = facts.trainable_params
    if not trained or model is None or facts.task == "lora":
        return {}
    shares = {*_SHARDS, num_gpus or 1}
    low, high = (model.params_total * bound for bound in _NEARLY_ALL)
    if trained > low or any(low < trained * share < high for share in shares):
        return {}
    return {FROZEN: f"all but {trained:,} of {model.params_total:,}"}


def _used(name: str, value: str, options: Mapping[str, str], parts: Parts) -> None:
    read = {
        "multi_latent_attention": _mla,
        "mtp_num_layers": _predictions,
        "window_size": _window,
    }.get(name)
    stated = read(value, options) if read else None
    if stated is None:
        parts.unknown[name] = value
    else:
        parts.model[FIELDS[name]] = stated


def _is_off(value: str) -> bool:
    return value.strip().strip("'\"").lower() in _OFF


def _number(value: str | None) -> int | None:
    text = (value or "").strip()
    if text.isdecimal() and len(text) < 10:
        return int(text)
    return None


def _mla(value: str, options: Mapping[str, str]) -> Mla | None:
    sizes = {name: _number(options.get(name)) for name in _MLA}
    query = options.get("q_lora_rank")
    rank = _number(query)
    if (
        None in sizes.values()
        or 0 in sizes.values()
        or query is None
        or (rank is None and not _is_off(query))
    ):
        return None
    return Mla.model_validate({**sizes, "q_lora_rank": rank or None})


def _predictions(value: str, options: Mapping[str, str]) -> int | None:
    return _number(value)


def _window(value: str, options: Mapping[str, str]) -> Window | None:
    """Megatron-core's (positions before the token, positions after it), as each n-th
    layer has none.
    """
    sizes = re.fullmatch(r"[(\[](\d{1,9}), ?(?:0|-1)[)\]]", value.strip())
    every = options.get("window_attn_skip_freq", "None")
    if sizes is None or (_number(every) is None and not _is_off(every)):
        return None
    return Window(size=int(sizes[1]) + 1, full_every=_number(every) or None)


def _experts(name: str, value: str, facts: Facts, parts: Parts) -> None:
    """A statement about experts; if the model has none it changes nothing."""
    if not facts.num_experts:
        return
    if name in _EXPERTS:
        size = _number(value)
        if size or _is_off(value):
            parts.moe[_EXPERTS[name]] = size or None
            return
    else:
        layers = _layers(value, facts.num_layers)
        if layers is not None:
            parts.moe.update(layers)
            return
    parts.unknown[name] = value


def _layers(value: str, num_layers: int | None) -> dict[str, int | None] | None:
    """Layers that have experts, from a number or a list of ones and zeros; None if it
    is not known.
    """
    every = _number(value)
    if every:
        whole = num_layers is not None and num_layers % every == 0
        if whole or every == 1:
            return {"every": None if every == 1 else every, "leading_dense_layers": 0}
        return None
    pattern = re.fullmatch(r"\[(0(?:, 0)*(?:, 1)+|1(?:, 1)*)\]", value.strip())
    layers = value.count("0") + value.count("1")
    if pattern is None or num_layers not in (None, layers):
        return None
    return {"every": None, "leading_dense_layers": value.count("0")}
