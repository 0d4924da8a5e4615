"""The software that trained a row or a run, as far as the constants tell software apart
(software.csv)."""

import functools
import re
from typing import Literal

from benchrun.paths import table

MEGATRON, MEGATRON_2022 = "megatron", "megatron-2022"
"""Megatron-core with transformer-engine, and Megatron-LM before both; the first if
software.csv is silent."""
JAX = "jax-"
"""Prefix of software that XLA compiles; the framework's own name follows."""
TORCHTITAN = "torchtitan"
"""Its selective recomputation chooses operators; that of the others repeats
attention."""
Trait = Literal[
    "cast_transposes", "copied_shards", "current_scaling", "fully_sharded", "others", "overlapping",
]  # fmt: skip
"""Properties of a framework, a stack or a source in software.csv:

- ``cast_transposes``: the framework's optimizer casts weights to FP8 together with their transposes, which is slow
- ``copied_shards``: the stack copies what ranks share to buffers of its own and back (PyTorch's FSDP)
- ``current_scaling``: FP8 of the source is scaled by each tensor's own largest value, whatever its tables call it
- ``fully_sharded``: all ranks of the stack share the weights if a table does not say how many do
- ``others``: the framework's loop takes the host longer than the worker's; no fit reads its kept runs
- ``overlapping``: published rows of the stack overlap tensor-parallel communication with products
"""


def has(trait: Trait, name: str) -> bool:
    """Whether the framework, stack or source ``name`` has ``trait``."""
    return (trait, name) in _table()


def of_source(source: str) -> str | None:
    """The software of everything that ``source`` published; None if that is not
    fixed."""
    return _table().get(("source", source))


def of_task(task: str) -> str | None:
    """The software that the name of a task states, as in pretrain-torchtitan; None
    if it states none."""
    for (where, name), stack in _table().items():
        if where == "task" and name in task:
            return stack
    return None


def of_framework(framework: str) -> str:
    """The software of one of this suite's frameworks."""
    return _table().get(("framework", framework), MEGATRON)


def publishers() -> dict[str, str]:
    """NVIDIA's repositories with the sources of the rows that they publish."""
    found = {}
    for (where, name), source in _table().items():
        if where == "repository":
            found[name] = source
    return found


def publisher(text: str) -> str:
    """The source of rows whose repository ``text`` names first; empty if it names none."""
    named = {}
    for repository, source in publishers().items():
        if repository in text:
            named[text.index(repository)] = source
    return named[min(named)] if named else ""


def release_year(version: re.Match[str] | None) -> float | None:
    """The year of a version such as 25.04, whose groups are year and month; None
    without one."""
    if version is None:
        return None
    return 2000 + int(version[1]) + (int(version[2]) - 0.5) / 12


@functools.cache
def _table() -> dict[tuple[str, str], str]:
    return {(row["where"], row["name"]): row["stack"] for row in table(__file__)}
