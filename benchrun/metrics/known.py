"""Under which conditions a log was made: what it says itself, and what the caller adds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import get_args

from benchrun import hardware
from benchrun.model import VOCAB_MULTIPLE, ModelShape, Moe
from benchrun.parse.records import Facts, Log
from benchrun.vocabulary import Task

SAME_MODEL = 0.02
"""Relative difference of the active parameters that a padded vocabulary and small terms may make."""
MOST_TP = 8
"""Tensor-parallel ranks of a log that does not say them, at most: Megatron-LM pads a vocabulary to a multiple of tp."""


@dataclass(frozen=True)
class Known:
    """Conditions of a run; None is what nobody said."""

    seq_length: int | None = None
    global_batch_size: int | None = None
    num_gpus: int | None = None
    gpu: str | None = None
    """Name in benchrun/hardware.csv; the driver's for one that is not listed."""
    precision: str | None = None
    model: ModelShape | None = None
    task: Task = "pretrain"
    fixed_length: bool = True
    """Every sample has ``seq_length`` tokens; otherwise a batch says nothing about tokens."""


def known(log: Log, given: Known) -> Known:
    """What the log says, and where it says nothing, what is given. A batch printed with the steps is the surest."""
    facts = log.facts
    batches = log.steps.columns.column("global_batch_size")
    printed = batches[batches > 0][-1:].tolist()
    said = {
        "seq_length": facts.seq_length,
        "global_batch_size": printed[0] if printed else facts.gbs,
        "num_gpus": facts.num_gpus,
        "gpu": _gpu(facts.device) if facts.device else None,
        "precision": facts.precision,
        "task": facts.task if facts.task in get_args(Task) else None,
        "model": _model(shape(facts, given.model), given),
        "fixed_length": False if facts.variable_length else None,
    }
    return replace(given, **{key: value for key, value in said.items() if value is not None})  # type: ignore[arg-type]


def _gpu(device: str) -> str:
    """An unlisted one keeps its own name: it is not the GPU that the caller expects, and has no peak."""
    return "CPU" if device == "cpu" else hardware.name_of(device) or device


def _model(logged: ModelShape | None, given: Known) -> ModelShape | None:
    """The given model where the log's is the same one: its vocabulary is not padded."""
    if logged is None or given.model is None:
        return logged or given.model
    same = abs(logged.params_active / given.model.params_active - 1) < SAME_MODEL
    return given.model if same and logged.num_layers == given.model.num_layers else logged


def as_logged(model: ModelShape, facts: Facts) -> ModelShape:
    """``model`` with each dimension that the log says otherwise. A vocabulary that was padded is the same one."""
    groups = facts.num_attention_heads if facts.grouped is False else facts.num_query_groups
    inner, vocabulary = facts.ffn_hidden_size, facts.vocab_size
    if vocabulary is not None and 0 <= vocabulary - model.vocab_size < VOCAB_MULTIPLE * (facts.tp or MOST_TP):
        vocabulary = None
    said: dict[str, object] = {
        "num_layers": facts.num_layers,
        "ffn_hidden_size": None if model.moe else inner,
        "num_query_groups": groups,
        "kv_channels": facts.kv_channels,
        "vocab_size": vocabulary,
    }
    if model.moe:
        experts = {
            "num_experts": facts.num_experts,
            "topk": facts.topk,
            "ffn_hidden_size": facts.moe_ffn_hidden_size or inner,
        }
        said["moe"] = model.moe.model_copy(update={name: size for name, size in experts.items() if size})
    return model.model_copy(update={name: value for name, value in said.items() if value})


def shape(facts: Facts, given: ModelShape | None = None) -> ModelShape | None:
    """The model, if the log states all that counts for its FLOPs, and nothing that is not counted here.

    Where the log has no line about gates, ``given`` decides, and without it the program's default.
    """
    layers, hidden, heads = facts.num_layers, facts.hidden_size, facts.num_attention_heads
    gates = (facts.gated, given.gated if given else None, facts.gated_default)
    gated = next((value for value in gates if value is not None), None)
    if facts.exotic or not (layers and hidden and heads and facts.vocab_size and gated is not None):
        return None
    moe = None
    inner = facts.ffn_hidden_size
    if facts.num_experts:
        expert = facts.moe_ffn_hidden_size or inner
        if not (facts.topk and expert):
            return None
        moe = Moe(num_experts=facts.num_experts, topk=facts.topk, ffn_hidden_size=expert)
        inner = expert
    if not inner:
        return None
    groups = facts.num_query_groups if facts.grouped is not False else None
    return ModelShape(
        num_layers=layers,
        hidden_size=hidden,
        ffn_hidden_size=inner,
        num_attention_heads=heads,
        num_query_groups=groups or heads,
        kv_channels=facts.kv_channels or max(hidden // heads, 1),
        vocab_size=facts.vocab_size,
        max_position_embeddings=facts.seq_length or 1,
        activation="swiglu" if gated else "gelu",
        moe=moe,
    )
