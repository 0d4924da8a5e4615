"""The worker of this repository: Megatron's step lines, after one line with its whole configuration as JSON."""

from __future__ import annotations

import json
from typing import Any

from benchrun.parse.dialect import LARGEST
from benchrun.parse.lines import Line
from benchrun.parse.megatron import Megatron

CONFIG = "benchrun config: {"
_NUMBERS = (
    *("seq_length", "global_batch_size", "micro_batch_size", "num_gpus", "tp", "pp", "cp", "vp", "ep"),
    *("planned_steps", "num_layers", "hidden_size", "ffn_hidden_size", "num_attention_heads", "num_query_groups"),
    *("kv_channels", "vocab_size"),
)


class Worker(Megatron):
    """megatron-core, driven by benchrun/trainer."""

    name = "megatron-core"
    fact_needles = (CONFIG.encode(),)

    def read(self, line: Line) -> None:
        """A step line, or the configuration; without that it is another program's log."""
        at = line.text.find(CONFIG)
        if at >= 0:
            self._configuration(line.text[at + len(CONFIG) - 1 :])
        elif self.facts.framework_version is not None:
            self.step_line(line)

    def _configuration(self, text: str) -> None:
        try:
            config = json.JSONDecoder().raw_decode(text)[0]
        except (ValueError, RecursionError):
            return
        model, versions = _mapping(config.get("model")), _mapping(config.get("versions"))
        said = {**model, **config}
        for name in _NUMBERS:
            if type(value := said.get(name)) is int and 0 < value <= LARGEST:
                setattr(self.facts, name, value)
        for name in ("precision", "device"):
            if isinstance(value := said.get(name), str):
                setattr(self.facts, name, value)
        self.facts.framework_version = str(versions.get("megatron-core"))
        if "activation" in model:
            self.facts.gated = model["activation"] in ("swiglu", "geglu")
        moe = _mapping(model.get("moe"))
        names = {"num_experts": "num_experts", "topk": "moe_router_topk", "ffn_hidden_size": "moe_ffn_hidden_size"}
        for theirs, ours in names.items():
            if type(value := moe.get(theirs)) is int and 0 < value <= LARGEST:
                setattr(self.facts, ours, value)


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
