"""What the frameworks on megatron.core share, and megatron-lm: pretrain_gpt.py of Megatron-LM in NeMo's container.

Sources: the checks of megatron.core 0.16.1 and 0.19.2 (OptimizerConfig, TransformerConfig, Megatron-LM's arguments).
"""

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from benchrun.frameworks.base import Framework, Unmeasured
from benchrun.frameworks.megatron_config import megatron_config
from benchrun.spec.runspec import TrainingSpec
from benchrun.spec.training import Optimizer


class Megatron(Framework):
    """Trains Megatron's model on GPUs, with transformer-engine."""

    userbuffers = True
    # torch's profiler takes its first step as warm-up, and writes its trace in the step after the last.
    profilers: ClassVar[Mapping[str, Unmeasured]] = {"kineto": Unmeasured(1, 1), "nsys": Unmeasured()}

    def refusals(self, spec: TrainingSpec) -> Iterator[str]:
        """Limits of FP8 weights, which no optimizer changes under LoRA, and of megatron.core's optimizer."""
        training, optimizer = spec.training, spec.training.optimizer
        fp8_weights = spec.precision == "fp8" and training.fp8.param_gather
        if fp8_weights and not training.distributed_optimizer and spec.task != "lora":
            yield "fp8.param_gather needs distributed_optimizer: change one of the two"
        if "optimizer" not in self.options or optimizer == Optimizer():
            return
        if not optimizer.precision_aware:
            yield "optimizer states below FP32 need optimizer.precision_aware: it must be true"
            return
        if spec.gpu == "CPU" or spec.precision == "fp32":
            yield "optimizer.precision_aware is transformer-engine's Adam: it needs a GPU, and bf16 or fp8"
        if not training.distributed_optimizer:
            yield "optimizer.precision_aware needs distributed_optimizer: it must be true"

    def configured(self, spec: TrainingSpec) -> TrainingSpec:
        """With the Megatron configuration."""
        return spec.model_copy(update={"megatron": megatron_config(spec)})

    def configuration(self, spec: TrainingSpec) -> dict[str, Any]:
        """The Megatron configuration, computed again: a spec.json of an older version has none, or another."""
        return {"megatron": megatron_config(spec)}


class MegatronLM(Megatron):
    """Started by flags; its fine-tune trains on tokens."""

    name = "megatron-lm"
    tasks = frozenset({"pretrain", "sft"})
    fsdp = False
    scripts = "/opt/megatron-lm"
    step_lines = ("elapsed time per iteration (",)

    def refusals(self, spec: TrainingSpec) -> Iterator[str]:
        """What pretrain_gpt.py has no flag for."""
        yield from super().refusals(spec)
        if spec.model.activation == "geglu":
            yield "megatron-lm's pretrain_gpt.py has no flag for geglu: take another framework"
