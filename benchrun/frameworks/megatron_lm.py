"""megatron-lm: pretrain_gpt.py of Megatron-LM, as NeMo's container carries it."""

from __future__ import annotations

from collections.abc import Iterator

from benchrun.frameworks.megatron import Megatron
from benchrun.spec.runspec import RunSpec


class MegatronLM(Megatron):
    """Started by flags; its fine-tune trains on tokens."""

    name = "megatron-lm"
    tasks = frozenset({"pretrain", "sft"})
    fsdp = False
    scripts = "/opt/megatron-lm"
    step_lines = ("elapsed time per iteration (",)

    def refusals(self, spec: RunSpec) -> Iterator[str]:
        """What pretrain_gpt.py has no flag for."""
        yield from super().refusals(spec)
        if spec.model.activation == "geglu":
            yield "megatron-lm's pretrain_gpt.py has no flag for geglu: take another framework"
