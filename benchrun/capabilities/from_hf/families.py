"""The families of models: what the keys of a configuration mean in a recipe."""

from collections.abc import Callable
from typing import Any

from pydantic import ValidationError

from benchrun.errors import UserError, closest
from benchrun.model import ModelShape
from benchrun.recipes.catalogue import explained
from benchrun.recipes.yamlfile import Document

from .config import ENCODERS, Config

Values = dict[str, Any]
"""Fields of a `ModelShape`."""
ACTIVATIONS = {
    "silu": "swiglu",
    "swish": "swiglu",
    "gelu": "geglu",
    "gelu_new": "geglu",
    "gelu_pytorch_tanh": "geglu",
}
"""Name in a configuration -> that of the gated activation."""
NO_CHANGE = "it changes no parameter and no matrix product"
GEMMA = {"tie_word_embeddings": True, "head_dim": 256}
DEFAULTS: dict[str, Values] = {
    "gemma": GEMMA,
    "gemma2": {**GEMMA, "sliding_window": 4096},
    "gemma3_text": {
        **GEMMA,
        "vocab_size": 262208,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "max_position_embeddings": 131072,
        "sliding_window": 4096,
        "sliding_window_pattern": 6,
        "rope_theta": 1_000_000,
    },
    "gpt_oss": {"sliding_window": 128, "head_dim": 64},
    "nemotron": {"hidden_act": "relu2", "partial_rotary_factor": 0.5},
    "nemotron_h": {"mlp_hidden_act": "relu2"},
}
"""Type of a model -> what its class in transformers has where a file is silent."""


def shape_of(document: Document) -> tuple[ModelShape, list[str]]:
    """The model of a configuration, and what a recipe leaves out of it, a sentence
    each. UserError for what it cannot represent.
    """
    left_out = []
    if isinstance(document.get("text_config"), Document):
        for key in ENCODERS:
            if key in document:
                left_out.append(f"{key}: this is the language model alone")
        document = document["text_config"]
    kind = document.get("model_type")
    if kind is None:
        raise UserError("key 'model_type' is missing", where=document.place)
    if kind not in FAMILIES:
        where = document.where(("model_type",))
        raise UserError(f"'model_type' is {kind!r}", hint=closest(str(kind), FAMILIES), where=where)
    config = Config(document, DEFAULTS.get(kind, {}))
    values = FAMILIES[kind](config)
    config.finish()
    try:
        return ModelShape.model_validate(values), left_out + config.notes
    except ValidationError as error:
        raise explained(error, ModelShape, Document(document.place)) from None


def _plain(config: Config) -> Values:
    """A transformer without biases and activation."""
    return _sizes(config) | _attention(config) | _positions(config) | _window(config)


def _llama(config: Config) -> Values:
    return _plain(config) | _gate(config) | _biases(config)


def _biases(config: Config) -> Values:
    attention = config.flag("attention_bias")
    mlp = config.flag("mlp_bias")
    if attention != mlp:
        key = "attention_bias" if attention else "mlp_bias"
        raise config.refused(key, "is true: a recipe has biases in all linear layers or in none")
    return {"bias": attention}


def _sizes(config: Config) -> Values:
    """What every model has."""
    for key in ("attention_dropout", "hidden_dropout", "residual_dropout"):
        if config.get(key):
            config.notes.append(f"{key}: it is trained without dropout")
    return {
        "num_layers": config.size("num_hidden_layers"),
        "hidden_size": config.size("hidden_size"),
        "ffn_hidden_size": config.size("intermediate_size"),
        "num_attention_heads": config.size("num_attention_heads"),
        "vocab_size": config.size("vocab_size"),
        "max_position_embeddings": config.size("max_position_embeddings"),
        "tied_embeddings": config.flag("tie_word_embeddings"),
    }


def _gate(config: Config) -> Values:
    """The activation; where two keys have one, transformers uses the first."""
    names = [config.get(key) for key in ("hidden_activation", "hidden_act")]
    key = "hidden_activation" if names[0] else "hidden_act"
    name = names[0] or names[1] or "silu"
    if name not in ACTIVATIONS:
        raise config.refused(key, f"is {name!r}", f"legal: {', '.join(ACTIVATIONS)}")
    return {"activation": ACTIVATIONS[name]}


def _attention(config: Config) -> Values:
    """Heads, of which keys and values may have fewer."""
    heads = config.size("num_attention_heads")
    width = config.some("head_dim")
    if width is None:
        hidden = config.size("hidden_size")
        if hidden % heads:
            why = f"({heads}) does not divide hidden_size ({hidden}), and there is no head_dim"
            raise config.refused("num_attention_heads", why)
        width = hidden // heads
    return {"num_query_groups": config.size("num_key_value_heads", heads), "kv_channels": width}


def _positions(config: Config) -> Values:
    """Rotary positions. transformers 5 has all of them in ``rope_parameters``."""
    rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
    key = "rope_parameters" if config.get("rope_parameters") else "rope_scaling"
    config.get("rope_scaling")
    rope = rope.get("full_attention", rope) if isinstance(rope, dict) else None
    if rope is None:
        raise config.refused(key, "must be a mapping")
    base = rope.get("rope_theta") or config.get("rope_theta", 10000)
    config.get("rope_theta")
    share = rope.get("partial_rotary_factor") or config.get("partial_rotary_factor", 1.0)
    config.get("partial_rotary_factor")
    length = config.get("initial_context_length", config.get("max_position_embeddings"))
    before = rope.get("original_max_position_embeddings", length)
    values = {"rotary_base": int(base), "rotary_percent": float(share)}
    kind = rope.get("rope_type") or rope.get("type") or "default"
    if kind in ("llama3", "yarn"):
        factor = rope.get("factor")
        if not isinstance(factor, int | float):
            raise config.refused(key, "has no factor")
        return values | {
            "rope_scaling": {
                "kind": kind,
                "factor": float(factor),
                "original_positions": int(before),
            }
        }
    if kind != "default":
        config.notes.append(f"{key} {kind}: {NO_CHANGE}")
    return values


def _window(config: Config) -> Values:
    """The sliding window, by the type of each layer where these are listed."""
    size = config.some("sliding_window")
    kinds = config.get("layer_types")
    used = config.get("use_sliding_window", True)
    config.get("max_window_layers")
    config.only("sliding_window_size", size)
    every = config.some("sliding_window_pattern") or config.some("_sliding_window_pattern")
    if config.document["model_type"] in ("gemma2", "gpt_oss"):
        every = 2
    if kinds is None and used and "max_window_layers" in config.document and size:
        raise config.refused("max_window_layers", "is a window in the upper layers alone")
    if kinds is not None:
        layers = config.size("num_hidden_layers")
        every = _every(kinds, layers) if isinstance(kinds, list) else None
        if every is None:
            raise config.refused("layer_types", "has no order that a recipe can represent")
    if not size or not used or every == 1:
        return {}
    if every is not None and every > config.size("num_hidden_layers"):
        every = None
    return {"window": {"size": size, "full_every": every}}


def _every(kinds: list[Any], layers: int) -> int | None:
    """The n of a list in which each n-th layer has full attention, the others a window;
    more than ``layers`` where none has. None for any other list.
    """
    full = [number for number, kind in enumerate(kinds, 1) if kind == "full_attention"]
    every = full[0] if full else layers + 1
    expected = ["sliding_attention"] * layers
    for number in range(every, layers + 1, every):
        expected[number - 1] = "full_attention"
    return every if kinds == expected else None


def _moe(config: Config, experts: str, width: str = "moe_intermediate_size") -> Values:
    """Experts with equal loads, so that all steps have equal work."""
    coefficient = config.get("router_aux_loss_coef")
    return {
        "num_experts": config.size(experts),
        "topk": config.size("num_experts_per_tok"),
        "ffn_hidden_size": config.size(width),
        "aux_loss_coeff": float(0.001 if coefficient is None else coefficient),
        "force_balance": True,
    }


def _mixtral(config: Config) -> Values:
    moe = _moe(config, "num_local_experts", "intermediate_size")
    return _llama(config) | {"moe": moe}


def _qwen2(config: Config) -> Values:
    return _plain(config) | _gate(config) | {"qkv_bias": True}


def _qwen3(config: Config) -> Values:
    return _llama(config) | {"qk_norm": "weighted"}


def _qwen2_moe(config: Config) -> Values:
    shared = config.some("shared_expert_intermediate_size")
    config.notes.append("the gate of the shared expert: one number per token and layer")
    return _qwen2(config) | {"moe": _sparse(config) | {"shared_ffn_hidden_size": shared}}


def _qwen3_moe(config: Config) -> Values:
    return _qwen3(config) | {"moe": _sparse(config)}


def _sparse(config: Config) -> Values:
    """The experts of Qwen: which layers have some."""
    every = config.size("decoder_sparse_step", 1)
    dense = config.get("mlp_only_layers") or []
    if dense and (every > 1 or dense != [*range(len(dense))]):
        raise config.refused("mlp_only_layers", "is no list of the first layers alone")
    moe = _moe(config, "num_experts")
    return moe | {"leading_dense_layers": len(dense), "every": every if every > 1 else None}


def _deepseek(config: Config) -> Values:
    """Latent attention, experts after the first layers, multi-token prediction."""
    config.only("attention_bias", False)
    config.only("moe_layer_freq", 1)
    config.only("scoring_func", "softmax", "sigmoid")
    config.get("head_dim")
    config.get("qk_head_dim")
    config.get("num_key_value_heads")
    heads = config.size("num_attention_heads")
    mla = {
        "q_lora_rank": config.some("q_lora_rank"),
        "kv_lora_rank": config.size("kv_lora_rank"),
        "qk_head_dim": config.size("qk_nope_head_dim"),
        "qk_pos_emb_head_dim": config.size("qk_rope_head_dim"),
        "v_head_dim": config.size("v_head_dim"),
    }
    values = {"num_query_groups": heads, "kv_channels": mla["v_head_dim"], "mla": mla}
    values |= _sizes(config) | _positions(config) | _gate(config)
    values["mtp_layers"] = config.some("num_nextn_predict_layers") or 0
    if config.some("n_routed_experts"):
        moe = _routed(config)
        moe["leading_dense_layers"] = int(config.get("first_k_dense_replace", 0))
        moe["sigmoid"] = config.get("scoring_func") == "sigmoid" or moe["expert_bias"]
        values["moe"] = moe
    return values


def _routed(config: Config) -> Values:
    """Routed and shared experts, as DeepSeek and Nemotron name them."""
    width = config.size("moe_intermediate_size")
    shared = config.size("moe_shared_expert_intermediate_size", width)
    method = config.get("topk_method")
    groups = config.some("n_group")
    chosen = config.some("topk_group")
    if method == "greedy" or not (groups and chosen):
        groups = chosen = None
    factor = float(config.get("routed_scaling_factor", 1.0))
    by_sequence = config.get("seq_aux", True)
    number = config.get("n_shared_experts") or 0
    return _moe(config, "n_routed_experts") | {
        "shared_ffn_hidden_size": number * shared or None,
        "expert_bias": method == "noaux_tc" or config.document["model_type"] == "nemotron_h",
        "num_groups": groups,
        "topk_groups": chosen,
        "scaling_factor": None if factor == 1 else factor,
        "balance": "seq_aux_loss" if by_sequence else "aux_loss",
        "aux_loss_coeff": float(config.get("aux_loss_alpha", 0.0001)),
    }


def _gpt_oss(config: Config) -> Values:
    config.only("attention_bias", True)
    config.only("swiglu_limit", 7.0)
    config.only("hidden_act", "silu")
    config.get("experts_per_token")
    moe = _moe(config, "num_local_experts", "intermediate_size")
    moe |= {"balance": "none", "aux_loss_coeff": 0.0}
    own = {"bias": True, "attention_sinks": True, "activation": "clamped-swiglu", "moe": moe}
    return _plain(config) | own


def _gemma2(config: Config) -> Values:
    """Gemma 2 and 3: with norms after attention and MLP too."""
    config.notes.append("norms after attention and MLP: two vectors of parameters a layer")
    for key in ("attn_logit_softcapping", "final_logit_softcapping"):
        if config.get(key):
            config.notes.append(f"{key}: {NO_CHANGE}")
    return _llama(config)


def _gemma3(config: Config) -> Values:
    return _gemma2(config) | {"qk_norm": "weighted"}


def _nemotron(config: Config) -> Values:
    """Nemotron-4 and Minitron: no gate, a norm that is centered."""
    config.only("hidden_act", "relu2")
    own = {"activation": "squared-relu", "normalization": "LayerNorm1p"}
    return _plain(config) | _biases(config) | own


def _nemotron_h(config: Config) -> Values:
    """Layers of Mamba-2, attention, MLP or experts."""
    for key in ("attention_bias", "mlp_bias", "use_bias", "mamba_proj_bias"):
        config.only(key, False)
    config.only("use_conv_bias", True)
    config.only("conv_kernel", 4)
    config.only("mamba_hidden_act", "silu")
    config.only("mlp_hidden_act", "relu2")
    for key in ("expand", "rope_theta", "partial_rotary_factor", "attention_head_dim"):
        config.get(key)  # none of them is used: the inner width is that of all heads
    pattern = _pattern(config, "hybrid_override_pattern", "layers_block_type")
    mamba = {
        "pattern": pattern,
        "num_heads": config.size("mamba_num_heads"),
        "head_dim": config.size("mamba_head_dim"),
        "state_dim": config.size("ssm_state_size"),
        "num_groups": config.size("n_groups"),
    }
    own: Values = {"activation": "squared-relu", "position_embedding": "none", "mamba": mamba}
    if "E" in pattern:
        own["moe"] = _routed(config) | {
            "sigmoid": True,
            "latent_size": config.some("moe_latent_size"),
        }
    if predictions := config.some("num_nextn_predict_layers"):
        own["mtp_layers"] = predictions
        mamba["mtp_pattern"] = _pattern(
            config, "mtp_hybrid_override_pattern", "mtp_layers_block_type"
        )
    width = config.some("head_dim") or config.some("attention_head_dim")
    heads = {"num_query_groups": config.size("num_key_value_heads"), "kv_channels": width}
    return _sizes(config) | _window(config) | heads | own


def _pattern(config: Config, letters: str, words: str) -> str:
    """The kinds of the layers, as letters or as a list of words."""
    text = config.get(letters)
    kinds = config.get(words)
    if text is None and not isinstance(kinds, list):
        raise UserError(f"key '{letters}' is missing", where=config.document.place)
    if text is None:
        text = "".join(LETTERS.get(str(kind), "?") for kind in kinds)
    if set(text) - {*LETTERS.values()}:
        key = letters if config.document.get(letters) else words
        legal = ", ".join(f"{kind} ({letter})" for kind, letter in LETTERS.items())
        raise config.refused(key, f"has other layers than {legal}")
    return str(text)


LETTERS = {"mamba": "M", "attention": "*", "mlp": "-", "moe": "E"}
FAMILIES: dict[str, Callable[[Config], Values]] = {
    "llama": _llama,
    "mistral": _llama,
    "mixtral": _mixtral,
    "qwen2": _qwen2,
    "qwen2_moe": _qwen2_moe,
    "qwen3": _qwen3,
    "qwen3_moe": _qwen3_moe,
    "deepseek_v2": _deepseek,
    "deepseek_v3": _deepseek,
    "kimi_k2": _deepseek,
    "gpt_oss": _gpt_oss,
    "gemma": _llama,
    "gemma2": _gemma2,
    "gemma3_text": _gemma3,
    "nemotron": _nemotron,
    "nemotron_h": _nemotron_h,
}
"""``model_type`` -> its reader."""
