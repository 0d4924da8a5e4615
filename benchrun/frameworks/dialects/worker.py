"""The workers of this repository print one line with their whole configuration as JSON, then steps.

This one, on megatron-core, prints Megatron's step lines; the fine-tune on transformers the Trainer's dictionaries.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from benchrun.frameworks.dialects.megatron import Megatron
from benchrun.parse.dialect import LARGEST, Dialect
from benchrun.parse.inputs import chunks
from benchrun.parse.lines import Line
from benchrun.parse.records import Facts

CONFIG = "benchrun config: {"
DONE = b"benchrun done: {"
_SAME = (
    *("seq_length", "num_gpus", "tp", "pp", "cp", "vp", "ep", "planned_steps", "num_layers", "hidden_size"),
    *("ffn_hidden_size", "num_attention_heads", "num_query_groups", "kv_channels", "vocab_size"),
)
_NUMBERS = {**{name: name for name in _SAME}, "global_batch_size": "gbs", "micro_batch_size": "mbs"}
_EXPERTS = {"num_experts": "num_experts", "topk": "topk", "ffn_hidden_size": "moe_ffn_hidden_size"}
"""Key of the configuration -> field of Facts."""


class Worker(Megatron):
    """megatron-core, driven by benchrun/trainer."""

    name = "megatron-core"
    fact_needles = (CONFIG.encode(),)

    printed_conventions = ("full", "causal")

    def read(self, line: Line) -> None:
        """A step line, or the configuration; without that it is another program's log."""
        if not configure(self.facts, line.text, self.name) and self.facts.framework_version is not None:
            Dialect.read(self, line)


def configure(facts: Facts, text: str, package: str) -> bool:
    """Take the configuration out of a line that holds one: facts, and the version of ``package``. False without it."""
    at = text.find(CONFIG)
    if at < 0:
        return False
    try:
        config = json.JSONDecoder().raw_decode(text[at + len(CONFIG) - 1 :])[0]
    except (ValueError, RecursionError):
        return True
    versions = _mapping(config.get("versions"))
    if package in versions:
        facts.framework_version = str(versions[package])
        _take(facts, config)
    return True


def _take(facts: Facts, config: dict[str, Any]) -> None:
    model = _mapping(config.get("model"))
    values = {**model, **config}
    for name in ("precision", "device", "task"):
        if isinstance(value := values.get(name), str):
            setattr(facts, name, value)
    if "activation" in model:
        facts.gated = model["activation"] in ("swiglu", "geglu")
    for source, names in ((values, _NUMBERS), (_mapping(model.get("moe")), _EXPERTS)):
        for key, field in names.items():
            if type(value := source.get(key)) is int and 0 < value <= LARGEST:
                setattr(facts, field, value)


def ended_at(*logs: Path) -> float | None:
    """The worker's time after its last step, in seconds since 1970; None where no log has it."""
    for line in _lines_with(DONE, logs):
        try:
            ended = json.loads(line[line.index(DONE) + len(DONE) - 1 :])["ended"]
            return datetime.fromisoformat(ended.replace("Z", "+00:00")).timestamp()
        except (ValueError, KeyError, AttributeError, TypeError):
            continue
    return None


def _lines_with(words: bytes, logs: tuple[Path, ...]) -> Iterator[bytes]:
    for log in logs:
        rest = b""  # a log may be larger than the memory
        for chunk in chunks(log):
            *lines, rest = (rest + chunk).splitlines(keepends=True) or [b""]
            yield from (line for line in lines if words in line)
        if words in rest:
            yield rest


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
