"""Which software a row or a run was trained with, as far as the constants tell software apart."""

import functools
import re

from benchrun.paths import table

MEGATRON, MEGATRON_2022 = "megatron", "megatron-2022"
"""Megatron-core with transformer-engine, and Megatron-LM before both; the first where software.csv is silent."""
JAX = "jax-"
"""How the software that XLA compiles is called, before the framework's own name."""
TORCHTITAN = "torchtitan"
"""Its selective recomputation is one of operators, not of attention."""


def of_source(source: str) -> str | None:
    """The software of everything that ``source`` published; None where that is not fixed."""
    return _table().get(("source", source))


def of_task(task: str) -> str | None:
    """The software that the name of a task states, as in pretrain-torchtitan; None where it states none."""
    return next((stack for (where, name), stack in _table().items() if where == "task" and name in task), None)


def of_framework(framework: str) -> str:
    """The software of one of this suite's frameworks."""
    return _table().get(("framework", framework), MEGATRON)


def publisher(text: str) -> str | None:
    """The source of rows whose repository ``text`` names; None where it names none."""
    return next((source for (where, name), source in _table().items() if where == "repository" and name in text), None)


def publishers() -> set[str]:
    """The sources of NVIDIA's published rows."""
    return {source for (where, _), source in _table().items() if where == "repository"}


def is_fitted(framework: str) -> bool:
    """Whether constants are fitted to kept runs of ``framework``.

    Not to those of frameworks that are compared on proxies of two to four layers, whose step the host decides.
    """
    return ("not_fitted", framework) not in _table()


def hooks_adapters(framework: str) -> bool:
    """Whether adapters of ``framework`` are hooks in Python, which the host runs for each micro-batch."""
    return ("hooked_adapters", framework) in _table()


def casts_transposes(framework: str) -> bool:
    """Whether the optimizer of ``framework`` casts weights to FP8 together with their transposes, which is slow."""
    return ("cast_transposes", framework) in _table()


def copies_shards(stack: str) -> bool:
    """Whether weights and gradients that ranks share are copied to and from buffers of their own (PyTorch's FSDP)."""
    return ("copied_shards", stack) in _table()


def shares_among_all(stack: str) -> bool:
    """Whether all ranks share the weights where a table does not say how many do."""
    return ("fully_sharded", stack) in _table()


def overlaps_tp(stack: str) -> bool:
    """Whether published rows overlap tensor-parallel communication with products."""
    return ("overlapping", stack) in _table()


def scales_currently(source: str) -> bool:
    """Whether FP8 of ``source`` is scaled by each tensor's own largest value, whatever its tables call it."""
    return ("current_scaling", source) in _table()


def release_year(version: re.Match[str] | None) -> float | None:
    """The year of a version such as 25.04, whose groups are year and month; None without one."""
    return 2000 + int(version[1]) + (int(version[2]) - 0.5) / 12 if version else None


@functools.cache
def _table() -> dict[tuple[str, str], str]:
    return {(row["where"], row["name"]): row["stack"] for row in table(__file__)}
