"""The base class of NeMo 1, NeMo 2 and Megatron-Bridge."""

import re
from collections.abc import Iterator
from typing import Any, ClassVar

from benchrun.frameworks.environment import Variable
from benchrun.runspec.spec import TrainingSpec

from .framework import Megatron

BUFFERS = "comm_overlap.tp_comm_overlap_cfg"
"""Switch that names one of the framework's own settings for the overlap of tensor
parallelism, in which ``{precision}`` stands for the run's.
"""


class NeMoOfCore(Megatron):
    """NeMo's frameworks, whose switches are arguments that benchrun has no name for."""

    positions_per_sequence = True
    conversations = "packed"
    options: ClassVar[tuple[str, ...]] = ("optimizer", "recompute.modules", "switches")
    parts: ClassVar[tuple[str, ...]] = (
        "model",
        "mixed_precision",
        "optimizer",
        "ddp",
        "comm_overlap",
        "env",
    )
    """Parts of its configuration that ``training.switches`` can set, and the environment
    of the ranks.
    """

    optional: ClassVar[str] = ""
    """A part that a switch without argument leaves out."""

    def refusals(self, spec: TrainingSpec) -> Iterator[str]:
        """Limits of their optimizer and of their FSDP, and switches of no part."""
        yield from super().refusals(spec)
        layout = spec.layout
        if layout.fsdp > 1 and spec.task == "lora":
            yield f"benchrun does not support {self.name} with adapters under FSDP: fsdp ({layout.fsdp}) must be 1"
        for name, value in spec.training.switches.items():
            part, _, argument = name.partition(".")
            if part not in self.parts or not (argument or name == self.optional):
                yield f"training.switches has {name}: it must be an argument of {', '.join(self.parts)}"
            if name == BUFFERS and not re.fullmatch(r"userbuffers_(\w|{precision})+", str(value)):
                yield f"{BUFFERS} is {value!r}: it must be a userbuffers_... of {self.name}"

    def implied(self, spec: TrainingSpec) -> dict[str, Any]:
        """Switches that follow from the specification, below those that it states."""
        return {}

    def _by_part(self, spec: TrainingSpec) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = {part: {} for part in self.parts}
        for name, value in {**self.implied(spec), **spec.training.switches}.items():
            part, _, argument = name.partition(".")
            if isinstance(value, tuple):
                value = list(value)
            found.setdefault(part, {})[argument] = value
        return found

    def configuration(self, spec: TrainingSpec) -> dict[str, Any]:
        """With the switches, by part."""
        switches = self._by_part(spec)
        buffers = switches.get("comm_overlap", {}).pop("tp_comm_overlap_cfg", "")
        buffers = buffers.replace("{precision}", spec.precision)
        return super().configuration(spec) | {"buffers": buffers, "switches": switches}

    def environment(self, spec: TrainingSpec) -> dict[str, Variable]:
        """With the switches of part ``env``."""
        found = super().environment(spec)
        for variable, value in self._by_part(spec)["env"].items():
            found[variable] = Variable(str(value), "as in the published configuration")
            if value is None:
                del found[variable]
        return found
