"""Under which conditions a number was measured: what must agree before two numbers may be compared."""

from __future__ import annotations

from benchrun.model import Frozen
from benchrun.recipe.spec import RunSpec

HARD = ("recipe", "task", "gpu", "num_gpus", "precision", "num_layers", "seq_length", "gbs")
"""These must agree; otherwise the numbers are not comparable."""
SOFT = ("framework", "mbs", "tp", "pp", "cp", "vp", "ep")
"""These are named where they differ: another layout or framework is a fair, and telling, comparison."""
LOSS = ("steps", "seed", "lr")
"""These decide the loss, and so must agree too where losses are compared."""


class Conditions(Frozen):
    """The key of a measurement; None is what nobody said."""

    recipe: str
    task: str
    gpu: str
    num_gpus: int
    precision: str
    num_layers: int
    seq_length: int
    gbs: int
    framework: str | None = None
    mbs: int | None = None
    tp: int | None = None
    pp: int | None = None
    cp: int | None = None
    vp: int | None = None
    ep: int | None = None
    steps: int | None = None
    seed: int | None = None
    lr: float | None = None


class Difference(Frozen):
    """One key that differs between a reference and a run."""

    key: str
    theirs: str | int | float | None
    ours: str | int | float | None


def conditions(spec: RunSpec) -> Conditions:
    """The conditions of a run."""
    return Conditions(
        recipe=spec.recipe,
        task=spec.task,
        gpu=spec.gpu,
        num_gpus=spec.num_gpus,
        precision=spec.precision,
        num_layers=spec.model.num_layers,
        seq_length=spec.seq_length,
        gbs=spec.gbs,
        framework=spec.framework,
        mbs=spec.mbs,
        tp=spec.layout.tp,
        pp=spec.layout.pp,
        cp=spec.layout.cp,
        vp=spec.layout.vp,
        ep=spec.layout.ep,
        steps=spec.training.steps,
        seed=spec.training.seed,
        lr=spec.training.lr,
    )


def differences(theirs: Conditions, ours: Conditions, keys: tuple[str, ...]) -> tuple[Difference, ...]:
    """The ``keys`` on which both say something, and not the same."""
    pairs = ((key, getattr(theirs, key), getattr(ours, key)) for key in keys)
    return tuple(
        Difference(key=key, theirs=a, ours=b) for key, a, b in pairs if a is not None and b is not None and a != b
    )
