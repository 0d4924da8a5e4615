"""Choice of a workload's constants: by its GPU's architecture, its number format and
its software."""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchrun.vocabulary import Task

from . import constants, software
from .physics import HOST
from .work import Value
from .workload import Number, Workload

BITS = {"fp8": 8, "fp8_current": 8, "mxfp8": 8, "nvfp4": 4}
"""Numbers below 16 bits."""
POWER_EXPONENT = 0.5
"""Products run at the power limit to this power: a clock falls slower than the power it
takes."""
Factors = Mapping[str, tuple[str, ...]]


def factors(load: Workload) -> Factors:
    """The constants whose product each name of the physics stands for."""
    task = "pretrain"
    if load.packed:
        task = load.task
    causes = {
        "own": True,
        "own.ranks": load.layout.tp * load.layout.cp > 1,
        "own.current": load.number == "fp8_current",
        "own.others": software.has("others", load.host),
    }
    slower = tuple(name for name, holds in causes.items() if load.host and holds)
    return _factors(load.gpu.family, load.gpu.name, load.number, load.stack, task, slower)


@functools.cache
def _factors(
    arch: str, gpu: str, number: Number, stack: str, task: Task, slower: tuple[str, ...]
) -> Factors:
    table = constants.constants_table()
    speed = (f"stack.{stack}.products", f"gpu.{gpu}")
    chosen: dict[str, tuple[str, ...]] = {name: (name,) for name in table}
    for name in table:
        for special in (arch, *slower[:1]):  # a value of its own for the architecture, the host
            if f"{name}.{special}" in table:
                chosen[name] = (f"{name}.{special}",)
    for name in HOST:
        chosen[name] += slower[1:]
    chosen |= {
        "products": (f"products.{arch}.{BITS.get(number, 16)}", *speed),
        "products.16": (f"products.{arch}.16", *speed),
        "cast": (f"cast.{number}",),
        "tp.low": (f"tp.low.{number}",),
        "attention": (
            f"attention.{arch}",
            f"stack.{stack}.attention",
            f"task.{stack}.{task}.attention",
        ),
        "narrow.side": (f"narrow.side.{BITS.get(number, 16)}",),
        "recompute.share": ("recompute.share", f"stack.{stack}.recompute"),
        "dp.exposed": (f"dp.exposed.{8 if number in BITS else 16}",),
        "optimizer.bytes": ("optimizer.bytes", f"stack.{stack}.optimizer"),
        "tp.call": ("tp.call", f"stack.{stack}.call"),
        "memory": (f"memory.{arch}",),
        "stack.memory": (f"stack.{stack}.memory",),
    }
    # Any constant may have a factor of one software.
    factors = {}
    for name, names in chosen.items():
        candidates = dict.fromkeys((*names, f"stack.{stack}.{name}"))
        factors[name] = tuple(factor for factor in candidates if factor in table)
    return factors


def chosen(load: Workload, values: Mapping[str, float]) -> Callable[[str], float]:
    """The constants of one workload, by the names of the physics."""
    names = factors(load)

    def value(name: str) -> float:
        result = 1.0
        for factor in names[name]:
            result *= values[factor]
        if name.startswith("products"):
            result *= load.power_limit**POWER_EXPONENT
        return result

    return value


class Chosen:
    """The constants of many workloads: arrays, for any values."""

    def __init__(self, loads: Sequence[Workload]) -> None:
        self.names = list(constants.constants_table())
        place = {name: index for index, name in enumerate(self.names)}
        self._exponents: dict[str, NDArray[np.float64]] = {}
        for row, load in enumerate(loads):
            for name, chosen_names in factors(load).items():
                if name not in self._exponents:
                    self._exponents[name] = np.zeros((len(loads), len(self.names)))
                for factor in chosen_names:
                    self._exponents[name][row, place[factor]] += 1
        self._steps: dict[tuple[str, bytes, float], NDArray[np.float64]] = {}
        self._power = np.array([load.power_limit for load in loads]) ** POWER_EXPONENT

    def of(self, logs: NDArray[np.float64]) -> Callable[[str], Value]:
        """The constants whose logarithms are ``logs``, in the order of ``names``."""
        values = {}

        def value(name: str) -> Value:
            if name not in values:
                values[name] = np.exp(self._exponents[name] @ logs)
                if name.startswith("products"):
                    values[name] *= self._power
            return values[name]

        return value

    def moved(
        self, logs: NDArray[np.float64], indices: NDArray[Any], by: float
    ) -> Callable[[str], Value]:
        """The constants with the logarithm of one of ``indices`` larger by ``by``: a
        row of workloads for each."""
        base = self.of(logs)
        which = indices.tobytes()

        def value(name: str) -> Value:
            key = (name, which, by)
            if key not in self._steps:
                self._steps[key] = np.exp(by * self._exponents[name][:, indices].T)
            return base(name) * self._steps[key]

        return value
