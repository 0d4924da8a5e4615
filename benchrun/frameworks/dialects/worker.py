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
from benchrun.parse.records import TEXTS, Facts

CONFIG = "benchrun config: {"
DONE = b"benchrun done: {"
_KEYS = {"gbs": "global_batch_size", "mbs": "micro_batch_size"}
"""Field of Facts -> key of the configuration, where it has another name."""
_EXPERTS = {"num_experts": "num_experts", "topk": "topk", "moe_ffn_hidden_size": "ffn_hidden_size"}
"""The same for the experts of a model."""


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
    experts = _mapping(model.get("moe"))
    stated = {name: {**model, **config}.get(_KEYS.get(name, name)) for name in vars(facts)}
    stated |= {name: experts[key] for name, key in _EXPERTS.items() if key in experts}
    for name, value in stated.items():
        if isinstance(value, str) if name in TEXTS else type(value) is int and 0 < value <= LARGEST:
            setattr(facts, name, value)
    if "activation" in model:
        facts.gated = model["activation"] in ("swiglu", "geglu")


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
