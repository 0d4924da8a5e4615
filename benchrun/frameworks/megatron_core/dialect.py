"""The workers of this repository print one line with their whole configuration as JSON,
then steps.

This one, on megatron-core, prints Megatron's step lines; the fine-tune on transformers
the Trainer's dictionaries.
"""

import contextlib
import re
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from benchrun.frameworks.megatron.dialect import Megatron
from benchrun.logs.dialect import Dialect
from benchrun.logs.lines import Line, object_in
from benchrun.logs.numerals import LARGEST, fact_of
from benchrun.logs.records import TEXTS, Facts
from benchrun.model import ModelShape

CONFIG, DONE = b"benchrun config: {", b"benchrun done: {"
_OWN = re.compile(r"benchrun (?:config|done): (?={)")
_KEYS = {"gbs": "global_batch_size", "mbs": "micro_batch_size"}
"""Field of Facts -> key of the configuration, if it has another name."""
_EXPERTS = {"num_experts": "num_experts", "topk": "topk", "moe_ffn_hidden_size": "ffn_hidden_size"}
"""Field of Facts about experts -> key of the configuration."""


class Worker(Megatron):
    """megatron-core, driven by benchrun/worker."""

    name = "megatron-core"
    step_needles = (*Megatron.step_needles, DONE)
    fact_needles = (CONFIG,)
    printed_conventions = ("full", "causal")

    def read(self, line: Line) -> None:
        """A step line, or the configuration; without that it is another program's log."""
        if (
            not configure(self.facts, line.text, self.name)
            and self.facts.framework_version is not None
        ):
            Dialect.read(self, line)


def configure(facts: Facts, text: str, package: str) -> bool:
    """Take what a worker's own line states: the configuration with the version of
    ``package``, or the end.

    False for any other line.
    """
    own = _OWN.search(text)
    if own is None:
        return False
    stated = object_in(text[own.end() :])
    versions = _mapping(stated.get("versions"))
    if package in versions:
        facts.framework_version = str(versions[package])
    if facts.framework_version is not None:
        _take(facts, stated)
    with contextlib.suppress(ValueError):
        if "ended" in stated:
            facts.ended_at = datetime.fromisoformat(
                str(stated["ended"]).replace("Z", "+00:00")
            ).timestamp()
            facts.peak_memory_gib = _peak(stated)
    return True


def _take(facts: Facts, config: dict[str, Any]) -> None:
    model = _mapping(config.get("model"))
    experts = _mapping(model.get("moe"))
    stated = {name: {**model, **config}.get(_KEYS.get(name, name)) for name in vars(facts)}
    stated |= {name: experts[key] for name, key in _EXPERTS.items() if key in experts}
    for name, value in stated.items():
        if isinstance(value, str) if name in TEXTS else type(value) is int and fact_of(name, value):
            setattr(facts, name, value)
    if model:
        with contextlib.suppress(ValidationError):
            facts.shape = ModelShape.model_validate({"num_layers": facts.num_layers, **model})
    if "activation" in model:
        facts.gated = model["activation"] in ("swiglu", "geglu")


def _peak(stated: dict[str, Any]) -> float | None:
    """GiB that the process had at most: on its GPU, or on a CPU in all."""
    peak = stated.get("peak_memory_gib", stated.get("peak_rss_gib"))
    if isinstance(peak, (int, float)) and 0 < peak <= LARGEST:
        return float(peak)
    return None


def _mapping(value: Any) -> dict[str, Any]:
    if isinstance(value, dict):
        return value
    return {}
