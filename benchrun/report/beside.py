"""The published speed to show beside a measured one, and how the two compare."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchrun import hardware
from benchrun.compare.choice import usable
from benchrun.compare.conditions import SOFT, Conditions, Difference, conditions, differences, hard_differences
from benchrun.compare.references import Reference
from benchrun.model.flops import flops_per_token
from benchrun.recipe.catalogue import training_file
from benchrun.spec.runspec import TrainingSpec

SAME = ("recipe", "task", "precision", "seq_length", "num_layers", "dimensions")
"""Conditions that a published number shares with ours; its GPU is of the same generation."""


@dataclass(frozen=True)
class Beside:
    """One published number, as rates of a GPU."""

    entry: Reference
    tokens_per_s: float
    whole_tflops: float | None
    """Causal TFLOPS/GPU, where only the whole model was published: a token of it costs more, so FLOPs are compared."""

    def ratio(self, tokens_per_s: float | None, tflops: float | None) -> float | None:
        """Ours over theirs, given our tokens/s/GPU and causal TFLOPS/GPU."""
        if self.whole_tflops is not None:
            return tflops / self.whole_tflops if tflops else None
        return tokens_per_s / self.tokens_per_s if tokens_per_s else None


def nearest(spec: TrainingSpec, published: Sequence[Reference]) -> Beside | None:
    """The number with most matching conditions; ties go to the fastest.

    For a proxy without a published number it is the whole model's.
    """
    own = conditions(spec)
    if entry := _nearest(own, published):
        return Beside(entry, entry.tokens_per_s_per_gpu, None)
    model = training_file(spec.recipe)[1].model
    whole = own.model_copy(update={"num_layers": model.num_layers, "dimensions": ()})
    if not spec.proxy or not (entry := _nearest(whole, published)):
        return None
    rate = entry.tokens_per_s_per_gpu
    return Beside(entry, rate, rate * flops_per_token(model, spec.seq_length, task=spec.task).causal / 1e12)


def _nearest(own: Conditions, published: Sequence[Reference]) -> Reference | None:
    arch = _arch(own.gpu)
    candidates = [
        entry
        for entry in published
        if usable(entry)
        and entry.tokens_per_s_per_gpu
        and _arch(entry.key.gpu) == arch
        and all(getattr(entry.key, name) == getattr(own, name) for name in SAME)
    ]

    def rank(entry: Reference) -> tuple[int, bool, bool, bool, int, float]:
        hard = hard_differences(entry.key, own)
        other_gpu, flawed = entry.key.gpu != own.gpu, bool(set(entry.flags) - {"proxy"})
        soft = len(differences(entry.key, own, ("framework",)))
        other_network = _one_node(entry.key) != _one_node(own)
        return len(hard), other_gpu, flawed, other_network, soft, -entry.tokens_per_s_per_gpu

    return min(candidates, key=rank, default=None)


def _one_node(where: Conditions) -> bool | None:
    listed = hardware.gpu(where.gpu)
    return where.num_gpus <= listed.gpus_per_node if listed and where.num_gpus else None


def _arch(gpu: str) -> str | None:
    return getattr(hardware.gpu(gpu), "arch", None)


def what_differs(entry: Reference, spec: TrainingSpec) -> str:
    """Every differing condition, published -> ours."""
    own = conditions(spec)
    differing: list[Difference] = [*hard_differences(entry.key, own), *differences(entry.key, own, SOFT)]
    named = [f"{d.key} {'-' if d.theirs is None else d.theirs} -> {d.ours}" for d in differing]
    if entry.key.image and not own.image:
        named.append(f"image {entry.key.image} -> none")
    return ", ".join(named) or "nothing that is stated"
