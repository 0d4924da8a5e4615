"""Similarity of workloads: the physics misses similar workloads by similar amounts.

The covariance of two logarithms of (observed / physics) is a sum: for each trait that
both share, its variance; and a smooth term that falls with the distance between layouts
and sizes of one model. (Gaussian-process regression: Rasmussen and Williams 2006,
chapters 2 and 5.)
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .software import MEGATRON_2022
from .workload import Workload

Array = NDArray[np.float64]
TRAITS = (
    "stack",
    "model_stack",
    "gpu",
    "release",
    "release_model",
    "series",
    "kernels",
    "layout_release",
)
"""Names of what two workloads may share; the wider traits first."""
NONE = ""
"""A trait that a workload shares with no other."""
FAMILY = TRAITS.index("model_stack")
"""Trait that workloads must share to be near one another."""
NOISE, SMOOTH, MOE = "noise", "smooth", "moe"
"""Names of what is no trait: unexplained variance of a row; the smooth term; how much
larger all is for experts."""


@dataclass(frozen=True)
class Kinship:
    """Traits and places of some workloads, and what is known of them: arrays with a row
    for each workload."""

    traits: NDArray[Any]
    """Text, in the order of `TRAITS`."""
    codes: NDArray[Any]
    """A number for each trait: equal if the trait is."""
    places: Array
    stacks: NDArray[Any]
    moe: NDArray[Any]
    residuals: Array
    """Logarithms of observed over physics; 0 if nothing was observed."""
    doubt: Array
    """Factors on the variance of rows that contradict all others."""
    weights: Array
    """The inverse of the rows' covariance times their residuals; 0 before
    `residuals.solved`."""

    @classmethod
    def of(cls, loads: Sequence[Workload], residuals: Array | float = 0.0) -> "Kinship":
        """Traits and places of ``loads``, which missed the physics by ``residuals``."""
        named = np.array([*map(traits, loads)], dtype=object)
        return cls(
            traits=named,
            codes=coded(named),
            places=places(loads),
            stacks=np.array([load.stack for load in loads], dtype=object),
            moe=np.array([load.model.shape.moe is not None for load in loads]),
            residuals=np.zeros(len(loads)) + residuals,
            doubt=np.ones(len(loads)),
            weights=np.zeros(len(loads)),
        )

    def part(self, chosen: NDArray[Any]) -> "Kinship":
        """The workloads at these indices."""
        return Kinship(*(column[chosen] for column in vars(self).values()))

    def joined(self, other: "Kinship") -> "Kinship":
        """The workloads of both, those of ``other`` last."""
        columns = zip(vars(self).values(), vars(other).values(), strict=True)
        return Kinship(*map(np.concatenate, columns))


def coded(named: NDArray[Any]) -> NDArray[Any]:
    """Numbers of traits, the same in every call of one process; 0 for one that is not
    shared."""
    return np.array([*map(hash, named.flat)]).reshape(named.shape)  # the hash of no text is 0


def traits(load: Workload) -> tuple[str, ...]:
    """The traits of a workload, in the order of `TRAITS`."""
    layout = load.layout
    family = load.model.name
    gpu = load.gpu.name
    task = "lora" if load.task == "lora" else "train"
    kind = "moe" if load.model.shape.moe else "dense"
    source = f"{load.source}/{load.stack}/{load.framework}"
    release = "unknown"
    if load.release:
        release = f"{load.release:.2f}"
    degrees = (layout.tp, layout.pp, layout.cp, layout.ep, layout.fsdp > 1, load.mbs)
    shape = "/".join(map("{:g}".format, degrees))
    series = f"{family} {gpu} {load.number} {source} {task}"
    kernels = NONE
    if load.stack == MEGATRON_2022:
        # The physics misses the same part of unfused software for kernels of one shape,
        # whatever the rest of the layout.
        kernels = f"{series} {layout.tp} {load.mbs:g}"
    return (
        f"{load.stack} {kind} {task}",
        f"{family} {load.stack}",
        f"{gpu} {kind}",
        f"{source} {release} {kind}",
        f"{source} {release} {family}",
        series,
        kernels,
        f"{series} {shape} {load.model.shape.num_layers} {load.seq_length} {release}",
    )


def places(loads: Sequence[Workload]) -> Array:
    """Coordinates in which the smooth term measures distance: doublings of sizes and
    layouts, years of a release.

    Neither the number of GPUs nor that of micro-batches is among them: how a step
    scales is left to the physics.
    """
    rows = []
    for load in loads:
        layout = load.layout
        place = (
            np.log2(layout.tp),
            np.log2(layout.pp),
            np.log2(layout.cp),
            np.log2(layout.ep) / 2,
            np.log2(load.mbs),
            np.log2(load.seq_length),
            np.log2(load.model.shape.num_layers),
            2.0 * (layout.fsdp > 1),
            load.release or 2025.0,
        )
        rows.append(place)
    return np.array(rows) / 2


def covariance(spread: Mapping[str, float], a: Kinship, b: Kinship) -> Array:
    """Covariance of each workload of ``a`` with each of ``b``, from the standard
    deviations ``spread``."""
    alike = _alike(a, b)
    whole = alike @ np.array([spread[name] ** 2 for name in TRAITS])
    whole += spread[SMOOTH] ** 2 * alike[:, :, FAMILY] * nearness(a, b)
    return np.asarray(whole * scales(spread, a)[:, None] * scales(spread, b)[None, :])


def _alike(a: Kinship, b: Kinship) -> NDArray[Any]:
    """Truth of sharing: axis 0 has the workloads of ``a``, axis 1 those of ``b``, axis
    2 the traits."""
    return np.asarray((a.codes[:, None, :] == b.codes[None, :, :]) & (b.codes != 0)[None, :, :])


def nearness(a: Kinship, b: Kinship) -> Array:
    """Distance kernel: 1 for the same place, less for those farther apart."""
    squares = (a.places**2).sum(axis=1)[:, None] + (b.places**2).sum(axis=1)[None, :]
    squares -= 2 * a.places @ b.places.T
    return np.asarray(np.exp(-np.maximum(squares, 0) / 2))


def shared(rows: Kinship) -> dict[str, Array]:
    """Similarity matrices, by name: a 0/1 matrix for each trait, and the distance
    kernel inside a family."""
    alike = _alike(rows, rows)
    same = {name: alike[:, :, index] for index, name in enumerate(TRAITS)}
    return {**same, SMOOTH: alike[:, :, FAMILY] * nearness(rows, rows)}


def scales(spread: Mapping[str, float], loads: Kinship) -> Array:
    """Factors on all standard deviations of each workload."""
    return np.where(loads.moe, spread[MOE], 1.0)


def noises(spread: Mapping[str, float], loads: Kinship) -> list[str]:
    """The name of each workload's noise."""
    names = []
    for stack in loads.stacks:
        own = f"{NOISE}.{stack}"
        names.append(own if own in spread else NOISE)
    return names


def noise(spread: Mapping[str, float], loads: Kinship) -> Array:
    """Variance of each row that it shares with no other."""
    own = np.array([spread[name] for name in noises(spread, loads)])
    return np.asarray(scales(spread, loads) ** 2 * own**2 * loads.doubt)
