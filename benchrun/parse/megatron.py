"""Megatron-LM's step line, of every version since 2020, and what its forks and our worker print the same way.

    iteration      339/     500 | consumed samples:  27120 | elapsed time per iteration (ms): 3237.3 | ... |

Fields come and go between versions and change their order; a field whose mean is not positive is absent. The time
is a mean over the steps since the previous line. Source of the forms: NVIDIA/Megatron-LM megatron/training/training.py
(training_log) from v1.0 to core 0.19.
"""

from __future__ import annotations

import json
import re

from benchrun.parse.records import Facts, Step

NAME = "megatron-lm"
STEP_NEEDLE = b"elapsed time per iteration ("
CONFIG_NEEDLE = b"benchrun config: {"
NEEDLES = (STEP_NEEDLE, CONFIG_NEEDLE, b" ........", b"using world size:")

_HEAD = re.compile(r"iteration\s+(\d+)\s*/\s*(\d+|infinity)\s*\|")
_FIELD = re.compile(r"\s*([^|:]+?(?:\([^)|]*\))?)\s*:\s*([^|]*)$")
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|nan|inf)", re.IGNORECASE)
_ARGUMENT = re.compile(r"(\w+) \.{4,} (\S+)")
_WORLD = re.compile(r"using world size: (\d+)")

_ARGUMENTS = {
    "seq_length": "seq_length",
    "global_batch_size": "global_batch_size",
    "micro_batch_size": "micro_batch_size",
    "world_size": "num_gpus",
    "tensor_model_parallel_size": "tp",
    "pipeline_model_parallel_size": "pp",
    "context_parallel_size": "cp",
    "expert_model_parallel_size": "ep",
    "num_layers": "num_layers",
    "train_iters": "planned_steps",
}


def steps(text: str, line: int, terminated: bool) -> list[Step]:
    """The step records in one line. Without its end a line holds only the records that are closed by ``|``."""
    found = []
    heads = list(_HEAD.finditer(text))
    for position, head in enumerate(heads):
        end = heads[position + 1].start() if position + 1 < len(heads) else len(text)
        row = _row(head, text[head.end() : end], line, closed=terminated or text.rstrip().endswith("|"))
        if row:
            found.append(row)
    return found


def _row(head: re.Match[str], body: str, line: int, *, closed: bool) -> Step | None:
    parts = body.split("|")
    if not closed:
        return None
    fields = {match[1].strip(): match[2] for part in parts if (match := _FIELD.match(part))}
    seconds = _first(fields, "elapsed time per iteration (s)")
    milliseconds = _first(fields, "elapsed time per iteration (ms)")
    time_s = seconds if seconds is not None else milliseconds / 1000 if milliseconds is not None else None
    if time_s is None or not 0 < time_s < float("inf"):
        return None
    batch = _first(fields, "global batch size")
    return Step(
        step=int(head[1]),
        step_time_s=time_s,
        line=line,
        planned_steps=None if head[2] == "infinity" else int(head[2]),
        loss=_first(fields, "lm loss", "loss"),
        grad_norm=_first(fields, "grad norm"),
        global_batch_size=int(batch) if batch is not None else None,
        tflops_per_gpu=_first(fields, "throughput per GPU (TFLOP/s/GPU)", "compute per GPU (TFLOP/s/GPU)", "TFLOPs"),
        tokens_per_s_per_gpu=_first(
            fields, "tokens per GPU (tokens/s/GPU)", "tokens per gpu per second (tgs)", "tokens-per-second-per-gpu"
        ),
        skipped=int(_first(fields, "number of skipped iterations") or 0),
        nan=int(_first(fields, "number of nan iterations") or 0),
    )


def _first(fields: dict[str, str], *names: str) -> float | None:
    """The first of ``names`` that is there; of ``current/average`` the current value."""
    for name in names:
        match = _NUMBER.match(fields[name].strip()) if name in fields else None
        if match:
            return float(match[0])
    return None


def read_facts(text: str, facts: Facts) -> None:
    """Note what an argument dump or the worker's configuration line says."""
    at = text.find(CONFIG_NEEDLE.decode())
    if at >= 0:
        _worker_config(text[at + len(CONFIG_NEEDLE) - 1 :], facts)
        return
    if "[config.py" in text:
        return  # DeepSpeed's own dump: its world_size is the data-parallel one
    if world := _WORLD.search(text):
        facts.num_gpus = int(world[1])
    for name, value in _ARGUMENT.findall(text):
        if name in _ARGUMENTS and value.isdigit():
            setattr(facts, _ARGUMENTS[name], int(value))
        elif name in ("bf16", "fp16") and value == "True":
            facts.precision = facts.precision or name
        elif name == "fp8" and value not in ("None", "False"):
            facts.precision = "fp8"


def _worker_config(text: str, facts: Facts) -> None:
    try:
        config = json.JSONDecoder().raw_decode(text)[0]
    except ValueError:
        return
    for name, value in config.items():
        if hasattr(facts, name):
            setattr(facts, name, value)
