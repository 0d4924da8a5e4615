"""Megatron-LM's step line, of every version since 2020, and what its forks print the same way.

    iteration      339/     500 | consumed samples:  27120 | elapsed time per iteration (ms): 3237.3 | ... |

Fields come and go between versions and change their order; a field whose mean is not positive is absent. The time
is a mean over the steps since the previous line. Source of the forms: NVIDIA/Megatron-LM megatron/training/training.py
(training_log) from v1.0 to core 0.19.
"""

from __future__ import annotations

import re
from typing import ClassVar

from benchrun.parse.dialect import FEW, LARGEST, Dialect, batch, count, number
from benchrun.parse.lines import Line
from benchrun.parse.records import Facts, Step

TIME_MS, TIME_S = "elapsed time per iteration (ms)", "elapsed time per iteration (s)"
_HEAD = re.compile(r"\biteration[\s=]\s*(\d{1,15})\s*/\s*(\d{1,15}|infinity)\s*\|")
_CURRENT = re.compile(r"\s*([^\s/(]+?)(?:TFLOPS)?\s*(?:/([^/(]+)|\(avg ([^/()]+)\)\s*)?")
_ARGUMENT = re.compile(r"(?<!\w)(\w{1,80}) \.{4,80} (\S{1,200}?)(?:\.{2,80}(?:updated|default))?(?!\S)")
_VOCABULARY = re.compile(r"> padded vocab \(size: (\d{1,9})\)")
_WORLD = re.compile(r"using world size: (\d{1,9})\b")

_ARGUMENTS = {
    "seq_length": "seq_length",
    "global_batch_size": "global_batch_size",
    "micro_batch_size": "micro_batch_size",
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
    "moe_router_topk": "moe_router_topk",
    "moe_ffn_hidden_size": "moe_ffn_hidden_size",
    "train_iters": "planned_steps",
    # GPT-NeoX
    "train_batch_size": "global_batch_size",
    "global_num_gpus": "num_gpus",
    "pipe_parallel_size": "pp",
}
_SWITCHES = {"swiglu": "gated", "glu_activation": "gated", "group_query_attention": "grouped"}
_PRECISIONS = frozenset({"bf16", "fp16", "fp8"})
_OFF = frozenset({"None", "False", "0", "1"})
_EXOTIC = frozenset(
    {"moe_shared_expert_intermediate_size", "moe_layer_freq", "multi_latent_attention", "mtp_num_layers"}
)
_LOSSES = ("lm loss", "loss", "lm_loss", "lm-loss", "reduced_train_loss")
_TOKENS = (
    "tokens per GPU (tokens/s/GPU)",
    "tokens/s/GPU inst/harmonic mean",
    "tokens per gpu per second (tgs)",
    "tokens per gpu per second tgs",
    "tokens-per-second-per-gpu",
)
_TFLOPS = ("throughput per GPU (TFLOP/s/GPU)", "compute per GPU (TFLOP/s/GPU)", "TFLOPs", "approx flops per GPU")


class Megatron(Dialect):
    """Megatron-LM, Megatron-DeepSpeed and their forks."""

    name = "megatron-lm"
    step_needles: ClassVar[tuple[bytes, ...]] = (b"elapsed time per iteration (", b"elapsed_time_per_iteration_ms=")
    fact_needles: ClassVar[tuple[bytes, ...]] = (b" ...........", b"using world size:", b"> padded vocab (size:")
    closing: ClassVar[tuple[str, ...]] = ("|",)
    one_rank_prints = True
    one_line = True

    def read(self, line: Line) -> None:
        """A step line, or one of the argument dump."""
        if _HEAD.search(line.text):
            self.step_line(line)
        else:
            _read_arguments(line.text, self.facts)

    def step_line(self, line: Line) -> None:
        """Every record of a step line; two ranks may have shared one."""
        if not self.whole(line):
            return
        heads = list(_HEAD.finditer(line.text))
        for position, head in enumerate(heads):
            end = heads[position + 1].start() if position + 1 < len(heads) else len(line.text)
            body = line.text[head.end() : end]
            row = _row(int(head[1]), body, line.number)
            if row is None:
                continue
            if head[2] != "infinity":
                self.facts.planned_steps = int(head[2])
            self.rows.add(row, averages=True)


def _row(step: int, body: str, line: int) -> Step | None:
    """One record; None if its time is not there, or not closed by the bar that follows every field."""
    found: dict[str, str] = {}
    for part in body.split("|")[:-1]:
        name, colon, value = part.partition(":")
        if not colon:  # a fork of Megatron-DeepSpeed writes elapsed_time_per_iteration_ms=3415.3
            name, _, value = part.replace("_", " ").partition("=")
        found[name.replace("\ufffd", "").strip()] = value
    time_s = _first(found, (TIME_MS, "elapsed time per iteration ms"))
    time_s = time_s / 1000 if time_s is not None else _first(found, (TIME_S,))
    time_s = _credible(time_s)
    if time_s is None:
        return None
    return Step(
        step,
        time_s,
        line,
        loss=_first(found, _LOSSES),
        grad_norm=_first(found, ("grad norm",)),
        global_batch_size=batch(found.get("global batch size")),
        tflops_per_gpu=_credible(_first(found, _TFLOPS)),
        tokens_per_s_per_gpu=_credible(_first(found, _TOKENS)),
        skipped=_few(found.get("number of skipped iterations")),
        nan=_few(found.get("number of nan iterations")),
    )


def _first(found: dict[str, str], names: tuple[str, ...]) -> float | None:
    """The first of ``names`` that is there; of ``current/average`` and ``current (avg average)`` the current value."""
    for name in names:
        if name in found:
            both = _CURRENT.fullmatch(found[name])
            values = [number(value) for value in both.groups() if value] if both else [None]
            return None if None in values else values[0]
    return None


def _credible(value: float | None) -> float | None:
    """A time or a rate; None for what is not above 0, or beyond all bounds."""
    return value if value is not None and 1 / LARGEST < value < LARGEST else None


def _few(text: str | None) -> int:
    """A count of iterations; 0 where there is none."""
    return min(count(text) or 0, FEW)


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
