"""Megatron-LM's step line, of every version since 2020, and what its forks print the same way.

    iteration      339/     500 | consumed samples:  27120 | elapsed time per iteration (ms): 3237.3 | ... |

Fields come and go between versions and change their order; a field whose mean is not positive is absent. The time
is a mean over the steps since the previous line. Source of the forms: NVIDIA/Megatron-LM megatron/training/training.py
(training_log) from v1.0 to core 0.19.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from benchrun.parse.dialect import (
    COUNT,
    FEW,
    NUMBER,
    THOUSANDTHS,
    Dialect,
    Piece,
    Reading,
    Record,
    Value,
    count,
    headed,
)
from benchrun.parse.lines import Line
from benchrun.parse.records import Facts

_HEAD = re.compile(r"\biteration[\s=]\s*(\d{1,15})\s*/\s*(\d{1,15}|infinity)\s*\|")
# ``current``, ``current/average`` and ``current (avg average)``, with a unit in GPT-NeoX.
_CURRENT = re.compile(r"([^\s/(]+?)(?:TFLOPS)?\s*(?:/([^/(]+)|\(avg ([^/()]+)\))?")
_ARGUMENT = re.compile(r"(?<!\w)(\w{1,80}) \.{4,80} (\S{1,200}?)(?:\.{2,80}(?:updated|default))?(?!\S)")
_VOCABULARY = re.compile(r"> padded vocab \(size: (\d{1,9})\)")
_WORLD = re.compile(r"using world size: (\d{1,9})\b")

_ARGUMENTS = {
    "seq_length": "seq_length",
    "global_batch_size": "gbs",
    "micro_batch_size": "mbs",
    "world_size": "num_gpus",
    "tensor_model_parallel_size": "tp",
    "pipeline_model_parallel_size": "pp",
    "context_parallel_size": "cp",
    "virtual_pipeline_model_parallel_size": "vp",
    "expert_model_parallel_size": "ep",
    "num_layers": "num_layers",
    "hidden_size": "hidden_size",
    "ffn_hidden_size": "ffn_hidden_size",
    "num_attention_heads": "num_attention_heads",
    "num_query_groups": "num_query_groups",
    "kv_channels": "kv_channels",
    "padded_vocab_size": "vocab_size",
    "num_experts": "num_experts",
    "moe_router_topk": "topk",
    "moe_ffn_hidden_size": "moe_ffn_hidden_size",
    "train_iters": "planned_steps",
    # GPT-NeoX
    "train_batch_size": "gbs",
    "global_num_gpus": "num_gpus",
    "pipe_parallel_size": "pp",
}
_SWITCHES = {"swiglu": "gated", "glu_activation": "gated", "group_query_attention": "grouped"}
_PRECISIONS = frozenset({"bf16", "fp16", "fp8"})
_OFF = frozenset({"None", "False", "0", "1"})
_EXOTIC = frozenset(
    {"moe_shared_expert_intermediate_size", "moe_layer_freq", "multi_latent_attention", "mtp_num_layers"}
)

_FEW = Reading(count, r"\d{1,15}", scale=lambda value: np.minimum(value, FEW))
_COLUMNS: dict[str, tuple[str, Reading]] = {
    "elapsed time per iteration (ms)": ("step_time_s", THOUSANDTHS),
    "elapsed time per iteration ms": ("step_time_s", THOUSANDTHS),
    "elapsed time per iteration (s)": ("step_time_s", NUMBER),
    **dict.fromkeys(("lm loss", "loss", "lm_loss", "lm-loss", "reduced_train_loss"), ("loss", NUMBER)),
    "grad norm": ("grad_norm", NUMBER),
    "global batch size": ("global_batch_size", COUNT),
    **dict.fromkeys(
        (
            *("throughput per GPU (TFLOP/s/GPU)", "compute per GPU (TFLOP/s/GPU)", "TFLOPs"),
            "approx flops per GPU",
        ),
        ("tflops_per_gpu", NUMBER),
    ),
    **dict.fromkeys(
        (
            *("tokens per GPU (tokens/s/GPU)", "tokens/s/GPU inst/harmonic mean"),
            *("tokens per gpu per second (tgs)", "tokens per gpu per second tgs", "tokens-per-second-per-gpu"),
        ),
        ("tokens_per_s_per_gpu", NUMBER),
    ),
    "number of skipped iterations": ("skipped", _FEW),
    "number of nan iterations": ("nan", _FEW),
}
"""What the line calls a value -> column; of several names of one column the first counts."""


class Megatron(Dialect):
    """Megatron-LM, Megatron-DeepSpeed and their forks."""

    name = "megatron-lm"
    step_needles: ClassVar[tuple[bytes, ...]] = (b"elapsed time per iteration (", b"elapsed_time_per_iteration_ms=")
    fact_needles: ClassVar[tuple[bytes, ...]] = (b" ...........", b"using world size:", b"> padded vocab (size:")
    closing: ClassVar[tuple[str, ...]] = ("|",)
    one_rank_prints = True
    averages = ("rows",)
    # The forks that also count what is recomputed print its step lines.
    printed_conventions: ClassVar[tuple[str, ...]] = (
        *("full", "causal", "full_with_recompute", "full_with_recomputed_scores"),
        *("megatron_0.5", "megatron_deepspeed"),
    )

    def read(self, line: Line) -> None:
        """A step line, or one of the argument dump."""
        if _HEAD.search(line.text):
            super().read(line)
        else:
            _read_arguments(line.text, self.facts)

    def records(self, text: str) -> Iterator[Record]:
        """Every record of a step line; two ranks may have shared one."""
        for head, end in headed(_HEAD, text):
            values = [Value("step", head[1], head.start(1), COUNT)]
            if head[2] != "infinity":
                values.append(Value("planned_steps", head[2], head.start(2), COUNT))
            yield Record([*values, *_values(_fields(text, head.end(), end))])


def _fields(text: str, start: int, end: int) -> dict[str, Piece]:
    """The fields that are closed by the bar which follows each."""
    pieces = {}
    for part in text[start:end].split("|")[:-1]:
        name, colon, value = part.partition(":")
        if not colon:  # a fork of Megatron-DeepSpeed writes elapsed_time_per_iteration_ms=3415.3
            name, _, value = part.partition("=")
            name = name.replace("_", " ")
            value = value.replace("_", " ")
        kept = value.lstrip()
        pieces[name.replace("\ufffd", "").strip()] = Piece(kept.rstrip(), start + len(part) - len(kept))
        start += len(part) + 1
    return pieces


def _values(pieces: dict[str, Piece]) -> Iterator[Value]:
    """One value for each column."""
    columns = set()
    for name, (column, reading) in _COLUMNS.items():
        if name not in pieces or column in columns:
            continue
        columns.add(column)
        text, start = pieces[name]
        if reading is NUMBER or reading is THOUSANDTHS:
            both = _CURRENT.fullmatch(text)
            averages = [] if both is None else [average for average in both.groups()[1:] if average]
            if both is None or None in map(NUMBER.parse, averages):
                continue
            text = both[1]
        yield Value(column, text, start, reading)


def _read_arguments(text: str, facts: Facts) -> None:
    """Note what a line of the argument dump says."""
    if "[config.py" in text:
        return  # DeepSpeed's own dump: its world_size is the data-parallel one
    if world := _WORLD.search(text):
        facts.num_gpus = int(world[1])
    if vocabulary := _VOCABULARY.search(text):
        facts.vocab_size = int(vocabulary[1])
    for name, value in _ARGUMENT.findall(text):
        if name in _ARGUMENTS and value.isdigit():
            setattr(facts, _ARGUMENTS[name], count(value))
        elif name in _SWITCHES:
            setattr(facts, _SWITCHES[name], value not in _OFF)
        elif name in _PRECISIONS and value not in _OFF:
            facts.precision = name  # fp8 comes after bf16 in the dump, and is used with it
        elif name in _EXOTIC and value not in _OFF:
            facts.exotic = name
    if facts.num_layers:
        facts.gated_default = False
