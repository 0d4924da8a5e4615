"""How alike two workloads are: what the physics misses of one, it probably misses of the other too.

The covariance of two logarithms of (observed / physics) is a sum: for each trait that both share, its variance; and a
smooth term that falls with the distance between layouts and sizes of one model. (Gaussian-process regression:
Rasmussen and Williams 2006, chapters 2 and 5.)
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchrun.predict.software import MEGATRON_2022
from benchrun.predict.workload import Workload

Array = NDArray[np.float64]
NONE = ""
"""A trait that a workload shares with no other."""
FAMILY = "model_stack"
"""Only workloads that share this trait are near one another."""
NOISE, SMOOTH, MOE = "noise", "smooth", "moe"
"""Names of what is no trait: unexplained variance of a row; the smooth term; how much larger all is for experts."""


@dataclass(frozen=True)
class Kinship:
    """Traits and places of some workloads, and what is known of them."""

    traits: list[dict[str, str]]
    codes: NDArray[Any]
    """A number for each trait (columns) of each workload (rows): equal where the trait is."""
    places: Array
    stacks: list[str]
    moe: NDArray[Any]
    residuals: Array = field(default_factory=lambda: np.zeros(0))
    """Logarithms of observed over physics; empty where nothing was observed."""
    doubt: Array = field(default_factory=lambda: np.zeros(0))
    """Factors on the variance of rows that contradict all others."""
    weights: Array = field(default_factory=lambda: np.zeros(0))
    """The inverse of the rows' covariance times their residuals; empty before `residuals.solved`."""

    @classmethod
    def of(cls, loads: Sequence[Workload], residuals: Array | None = None) -> "Kinship":
        """Of workloads."""
        named = [traits(load) for load in loads]
        return cls(
            traits=named,
            codes=coded(named),
            places=places(loads),
            stacks=[load.stack for load in loads],
            moe=np.array([load.model.shape.moe is not None for load in loads]),
            residuals=np.zeros(len(loads)) if residuals is None else residuals,
            doubt=np.ones(len(loads)),
        )

    def part(self, chosen: NDArray[Any]) -> "Kinship":
        """Some of them, by index."""
        lists = ([every[index] for index in chosen] for every in (self.traits, self.stacks))
        some, stacks = lists
        arrays = (every[chosen] for every in (self.moe, self.residuals, self.doubt))
        return Kinship(some, self.codes[chosen], self.places[chosen], stacks, *arrays)

    def joined(self, other: "Kinship") -> "Kinship":
        """These and others."""
        arrays = (np.concatenate([getattr(self, name), getattr(other, name)]) for name in ("moe", "residuals", "doubt"))
        places, codes = (np.concatenate([getattr(self, name), getattr(other, name)]) for name in ("places", "codes"))
        return Kinship(self.traits + other.traits, codes, places, self.stacks + other.stacks, *arrays)


def coded(named: Sequence[Mapping[str, str]]) -> NDArray[Any]:
    """Numbers of traits, the same in every call of one process; 0 for one that is not shared."""
    return np.array([[hash(trait) if trait else 0 for trait in each.values()] for each in named])


def traits(load: Workload) -> dict[str, str]:
    """What may be shared, by name; the wider traits first."""
    layout, task = load.layout, "lora" if load.task == "lora" else "train"
    kind = "moe" if load.model.shape.moe else "dense"
    family, gpu, source = load.model.name, load.gpu.name, f"{load.source}/{load.stack}/{load.framework}"
    release = f"{load.release:.2f}" if load.release else "unknown"
    shape = "/".join(f"{part:g}" for part in (layout.tp, layout.pp, layout.cp, layout.ep, layout.fsdp > 1, load.mbs))
    series = f"{family} {gpu} {load.number} {source} {task}"
    # What the physics misses of unfused software is that of kernels of one shape, whatever the rest of the layout.
    kernels = f"{series} {layout.tp} {load.mbs:g}" if load.stack == MEGATRON_2022 else NONE
    return {
        "stack": f"{load.stack} {kind} {task}",
        "model_stack": f"{family} {load.stack}",
        "gpu": f"{gpu} {kind}",
        "release": f"{source} {release} {kind}",
        "release_model": f"{source} {release} {family}",
        "series": series,
        "kernels": kernels,
        "layout_release": f"{series} {shape} {load.model.shape.num_layers} {load.seq_length} {release}",
    }


def places(loads: Sequence[Workload]) -> Array:
    """Coordinates in which the smooth term measures distance: doublings of sizes and layouts, years of a release.

    Neither the number of GPUs nor that of micro-batches is among them: how a step scales is left to the physics.
    """
    rows = [
        [
            np.log2(load.layout.tp),
            np.log2(load.layout.pp),
            np.log2(load.layout.cp),
            np.log2(load.layout.ep) / 2,
            np.log2(load.mbs),
            np.log2(load.seq_length),
            np.log2(load.model.shape.num_layers),
            2.0 * (load.layout.fsdp > 1),
            load.release or 2025.0,
        ]
        for load in loads
    ]
    return np.array(rows) / 2


def covariance(spread: Mapping[str, float], a: Kinship, b: Kinship) -> Array:
    """Between workloads of ``a`` (rows) and ``b`` (columns), with the standard deviations ``spread``.

    What `combined` makes of `shared`, all traits at once: quicker for few workloads.
    """
    names = list(a.traits[0])
    alike = (a.codes[:, None, :] == b.codes[None, :, :]) & (b.codes != 0)[None, :, :]
    whole = alike @ np.array([spread[name] ** 2 for name in names])
    whole += spread[SMOOTH] ** 2 * alike[:, :, names.index(FAMILY)] * nearness(a, b)
    return np.asarray(whole * scales(spread, a)[:, None] * scales(spread, b)[None, :])


def nearness(a: Kinship, b: Kinship) -> Array:
    """1 for the same place, less for those farther apart."""
    squares = (a.places**2).sum(axis=1)[:, None] + (b.places**2).sum(axis=1)[None, :] - 2 * a.places @ b.places.T
    return np.asarray(np.exp(-np.maximum(squares, 0) / 2))


def combined(spread: Mapping[str, float], shares: Mapping[str, Array], a: Kinship, b: Kinship) -> Array:
    """The same from what `shared` returns."""
    whole = np.zeros((len(a.codes), len(b.codes)))
    for name, share in shares.items():
        whole += spread[name] ** 2 * share
    return np.asarray(whole * scales(spread, a)[:, None] * scales(spread, b)[None, :])


def shared(a: Kinship, b: Kinship) -> dict[str, Array]:
    """By trait: 1 where two workloads share it, else 0; of the smooth term how near they are."""
    names = list(a.traits[0])
    columns = ((name, a.codes[:, [n]], b.codes[:, n][None, :]) for n, name in enumerate(names))
    same = {name: (left == right) & (left != 0) for name, left, right in columns}
    return {**same, SMOOTH: same[FAMILY] * nearness(a, b)}


def scales(spread: Mapping[str, float], loads: Kinship) -> Array:
    """How much larger all standard deviations of a workload are."""
    return np.where(loads.moe, spread[MOE], 1.0)


def noises(spread: Mapping[str, float], loads: Kinship) -> list[str]:
    """The name of each workload's noise."""
    return [f"{NOISE}.{stack}" if f"{NOISE}.{stack}" in spread else NOISE for stack in loads.stacks]


def noise(spread: Mapping[str, float], loads: Kinship) -> Array:
    """Variance of each row that it shares with no other."""
    own = np.array([spread[name] for name in noises(spread, loads)])
    return np.asarray(scales(spread, loads) ** 2 * own**2 * loads.doubt)
