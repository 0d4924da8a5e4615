"""The published number that is nearest to a run, also if conditions differ that a
verdict insists on.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter

from benchrun import hardware
from benchrun.errors import UserError
from benchrun.model.flops import flops_per_token
from benchrun.recipes.catalogue import training_file
from benchrun.runspec.spec import TrainingSpec

from .choice import usable
from .conditions import SOFT, Conditions, conditions, differences, hard_differences
from .references import Reference

SAME = ("recipe", "task", "precision", "seq_length", "num_layers", "dimensions")
"""Conditions that it shares with the run; its GPU is of the same generation."""


@dataclass(frozen=True)
class Nearest:
    """A published number, and how its conditions differ from those of a run."""

    entry: Reference
    whole_tflops: float | None
    """Causal TFLOPS/GPU, if only the whole model was published: a token of it costs
    more, so FLOPs are compared.
    """
    differs: tuple[str, ...]
    """Each condition that differs, published -> run."""

    @property
    def published(self) -> float:
        """Its value in `unit`."""
        return self.whole_tflops or self.entry.tokens_per_s_per_gpu

    @property
    def unit(self) -> str:
        """Unit of both numbers."""
        if self.whole_tflops is not None:
            return "TFLOPS/GPU"
        return "tokens/s/GPU"

    def measured(self, tokens_per_s: float | None, tflops: float | None) -> float | None:
        """The run's value in `unit`, given its tokens/s/GPU and causal TFLOPS/GPU."""
        if self.whole_tflops is None:
            return tokens_per_s
        return tflops


def nearest(spec: TrainingSpec, published: Sequence[Reference]) -> Nearest | None:
    """The number with most matching conditions; ties go to the fastest.

    For a proxy without a published number it is the whole model's. None if none shares
    `SAME`.
    """
    own = conditions(spec)
    if entry := _nearest(own, published):
        return Nearest(entry, None, _differs(entry, own))
    if not spec.proxy:
        return None
    try:
        model = training_file(spec.recipe)[1].model
    except UserError:  # a recipe that is no longer shipped
        return None
    whole = own.model_copy(update={"num_layers": model.num_layers, "dimensions": ()})
    if not (entry := _nearest(whole, published)):
        return None
    flops = flops_per_token(model, spec.seq_length, task=spec.task).causal
    return Nearest(entry, entry.tokens_per_s_per_gpu * flops / 1e12, _differs(entry, own))


def _nearest(own: Conditions, published: Sequence[Reference]) -> Reference | None:
    same = attrgetter(*SAME)
    wanted = same(own)

    def rank(entry: Reference) -> tuple[int, bool, bool, bool, int, float]:
        hard, flawed = hard_differences(entry.key, own), bool(set(entry.flags) - {"proxy"})
        other_gpu, other_network = entry.key.gpu != own.gpu, _one_node(entry.key) != _one_node(own)
        soft = len(differences(entry.key, own, ("framework",)))
        return len(hard), other_gpu, flawed, other_network, soft, -entry.tokens_per_s_per_gpu

    alike = (
        entry for entry in published if same(entry.key) == wanted and entry.tokens_per_s_per_gpu
    )
    candidates = [entry for entry in alike if usable(entry) and _alike(entry.key, own)]
    return min(candidates, key=rank, default=None)


def _alike(one: Conditions, other: Conditions) -> bool:
    """Whether two GPUs are of one generation, and not of different power limits; or
    neither is listed.
    """
    gpus = [hardware.gpu(each.gpu) for each in (one, other)]
    archs = {gpu and gpu.arch for gpu in gpus}
    powers = {gpu.power_w for gpu in gpus if gpu and gpu.power_w}
    return len(archs) == 1 and len(powers) <= 1


def _one_node(where: Conditions) -> bool | None:
    """Whether the GPUs are those of one node; None if that is unknown."""
    gpu = hardware.gpu(where.gpu)
    if gpu and where.num_gpus:
        return where.num_gpus <= gpu.gpus_per_node
    return None


def _differs(entry: Reference, own: Conditions) -> tuple[str, ...]:
    """Every differing condition, published -> ours."""
    differing = [*hard_differences(entry.key, own), *differences(entry.key, own, SOFT)]
    named = [f"{d.key} {'-' if d.theirs is None else d.theirs} -> {d.ours}" for d in differing]
    if entry.key.image and not own.image:
        return (*named, f"image {entry.key.image} -> none")
    return tuple(named)
