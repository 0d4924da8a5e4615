"""Base of the frameworks on megatron.core, and megatron-lm: pretrain_gpt.py of
Megatron-LM in NeMo's container.

Sources: the checks of megatron.core 0.16.1 and 0.19.2 (OptimizerConfig,
TransformerConfig, Megatron-LM's arguments).
"""

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from benchrun.frameworks.base import Framework, Unmeasured
from benchrun.model.features import TRANSFORMER
from benchrun.runspec.spec import TrainingSpec
from benchrun.runspec.training import Optimizer

from .architecture import YARN_POSITIONS
from .config import megatron_config


class Megatron(Framework):
    """Trains Megatron's model on GPUs, with transformer-engine."""

    userbuffers = True
    mxfp8_weights: ClassVar[bool] = False
    """Whether it gathers weights in MXFP8, through the buffer of the gradients."""
    # torch's profiler takes its first step as warm-up, and writes its trace in the step
    # after the last.
    profilers: ClassVar[Mapping[str, Unmeasured]] = {
        "kineto": Unmeasured(1, 1),
        "nsys": Unmeasured(),
    }

    def refusals(self, spec: TrainingSpec) -> Iterator[str]:
        """Limits of megatron.core: FP8 weights, which no optimizer changes under LoRA,
        recomputation, its optimizer.
        """
        training, recompute = spec.training, spec.training.recompute
        fp8_weights = spec.precision == "fp8" and training.fp8.param_gather
        model = spec.model
        if spec.task == "lora" and (model.mla or model.mamba):
            yield "benchrun supports adapters on neither latent attention nor Mamba-2 layers: take another model"
        if model.mamba and spec.layout.vp > 1:
            yield f"megatron.core has no virtual stages for Mamba-2 layers: vp ({spec.layout.vp}) must be 1"
        if (every := model.no_rope_every) and model.num_layers % every:
            yield f"megatron.core repeats no_rope_every: num_layers ({model.num_layers}) must be a multiple of {every}"
        if fp8_weights and not training.distributed_optimizer and spec.task != "lora":
            yield "fp8.param_gather needs distributed_optimizer: change one of the two"
        if fp8_weights and training.fp8.recipe == "mxfp8" and not self.mxfp8_weights:
            yield "benchrun trains with MXFP8 beside BF16 weights alone: fp8.param_gather must be false"
        if (
            "recompute.modules" in self.options
            and recompute.modules
            and recompute.granularity != "selective"
        ):
            yield f"recompute.modules belong to granularity selective, not {recompute.granularity}"
        if training.graph_scopes and training.cuda_graphs != "layers":
            yield f"graph_scopes belong to cuda_graphs layers, not {training.cuda_graphs}"
        if training.moe_dispatcher != "alltoall" and model.moe is None:
            yield "moe_dispatcher sends tokens to experts, of which this model has none: it must be alltoall"
        if "optimizer" in self.options and training.optimizer != Optimizer():
            yield from _optimizer(spec)

    def configured(self, spec: TrainingSpec) -> TrainingSpec:
        """Return the specification with the Megatron configuration."""
        return spec.model_copy(update={"megatron": megatron_config(spec)})

    def configuration(self, spec: TrainingSpec) -> dict[str, Any]:
        """The Megatron configuration, computed again: a spec.json of an older version
        has none, or another.
        """
        return {"megatron": megatron_config(spec)}


def partly_sharded(spec: TrainingSpec, who: str) -> Iterator[str]:
    """FSDP over some data-parallel ranks, with replicas, if ``who`` has none."""
    layout, ranks = spec.layout, spec.dp * spec.layout.cp
    if layout.fsdp > 1 and layout.pp == 1 and layout.fsdp != ranks and ranks % layout.fsdp == 0:
        yield f"{who} shards over all data-parallel ranks: fsdp ({layout.fsdp}) must be 1 or dp * cp ({ranks})"


def _optimizer(spec: TrainingSpec) -> Iterator[str]:
    """Limits of an optimizer that is not the usual one."""
    if not spec.training.optimizer.precision_aware:
        yield "optimizer states below FP32 need optimizer.precision_aware: it must be true"
        return
    if spec.gpu == "CPU" or spec.precision == "fp32":
        yield "optimizer.precision_aware is transformer-engine's Adam: it needs a GPU, and bf16, fp8 or nvfp4"
    if not spec.training.distributed_optimizer:
        yield "optimizer.precision_aware needs distributed_optimizer: it must be true"


class MegatronLM(Megatron):
    """Started by flags; its fine-tune trains on tokens."""

    name = "megatron-lm"
    package = "megatron-core"
    # Core 0.13 has no flags for windows, sinks, YaRN without latent attention, or
    # experts in a latent space; Mamba-2 is another program there.
    features = TRANSFORMER - {"sinks", "window", "yarn", "clamped", "expert_biases"}
    stages = True
    tasks = frozenset({"pretrain", "sft"})
    fsdp = False
    scripts = "/opt/megatron-lm"
    step_lines = ("elapsed time per iteration (",)

    def refusals(self, spec: TrainingSpec) -> Iterator[str]:
        """Refuse what pretrain_gpt.py has no flag for."""
        yield from super().refusals(spec)
        model = spec.model
        if model.activation == "geglu":
            yield "megatron-lm's pretrain_gpt.py has no flag for geglu: take another framework"
        if (
            model.mla
            and model.rope_scaling
            and model.rope_scaling.original_positions != YARN_POSITIONS
        ):
            yield f"megatron-lm has no flag for the length before YaRN: original_positions must be {YARN_POSITIONS}"
