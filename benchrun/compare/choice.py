"""Which of several published numbers a run is held against."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchrun.compare.conditions import LAYOUT, Conditions
from benchrun.compare.references import Reference, load_references
from benchrun.errors import UserError
from benchrun.recipe.frameworks import nemo_release

SPEEDS = ("step_time_s", "tokens_per_s_per_gpu", "samples_per_s")
COUNTED = ("tflops_per_gpu", "mfu_percent")
"""Comparable only under a convention that we count too."""
CONVENTIONS = ("full", "causal")


NOT_IN_FORCE = frozenset({"misprint", "revised"})
"""Flags of numbers that their own source contradicts: in the same row, or later for the same framework and image."""


def usable(entry: Reference) -> bool:
    """Whether a run can be held against ``entry`` at all."""
    if NOT_IN_FORCE & set(entry.flags):
        return False
    return entry.metric in SPEEDS or (entry.metric in COUNTED and entry.convention in CONVENTIONS)


def references_for(wanted: str | None, ours: Conditions) -> tuple[Reference, ...]:
    """Every published number, or the one whose id is ``wanted``. UserError where ``ours`` cannot be held against it."""
    entries = load_references()
    if wanted is None:
        return entries
    found = next((entry for entry in entries if entry.id == wanted), None)
    if found is None:
        names = [entry.id for entry in entries if entry.key.recipe == wanted.partition(":")[0]]
        hint = f"{names[0]} to {names[-1]}; " if names else ""
        hint += "benchrun show lists the references of a point with their ids"
        raise UserError(f"no reference is called '{wanted}'", hint=hint)
    if not usable(found):
        why = " ".join(found.flags) or f"{found.unit} of its own kind"
        raise UserError(f"no run is held against {wanted}: {why}", hint="see results/reference/README.md")
    theirs = found.key
    if (theirs.recipe, theirs.gpu) != (ours.recipe, ours.gpu):
        raise UserError(f"{wanted} is of {theirs.recipe} on {theirs.gpu}, this run is of {ours.recipe} on {ours.gpu}")
    return (found,)


def choose(entries: Sequence[Reference], ours: Conditions) -> Reference | None:
    """The best of the usable ``entries``, which all agree with ``ours`` on what must agree.

    The same framework wins, then the same image or version, then the same release of it, then the same variant (a
    source's plain run where ours has none), then no flag, then a time or rate over TFLOPS and MFU, then the layout that
    shares most, then the newest.
    """
    return max((entry for entry in entries if usable(entry)), key=lambda entry: _rank(entry, ours), default=None)


def _rank(entry: Reference, ours: Conditions) -> tuple[Any, ...]:
    theirs = entry.key
    # Proxy is no flaw here: only proxies match a proxy.
    flawless = not set(entry.flags) - {"proxy"}
    layout = sum(_shares(theirs, ours, key) for key in LAYOUT)
    direct = entry.metric in SPEEDS
    version = _shares(theirs, ours, "image") or _shares(theirs, ours, "framework_version")
    release = _release(ours) is not None and _release(theirs) == _release(ours)
    same = (_shares(theirs, ours, "framework"), version, release, theirs.variant == ours.variant)
    return (*same, flawless, direct, layout, entry.source.date, entry.id)


def _release(conditions: Conditions) -> str | None:
    return nemo_release(conditions.image) or nemo_release(conditions.framework_version)


def _shares(theirs: Conditions, ours: Conditions, key: str) -> bool:
    value = getattr(theirs, key)
    return value is not None and value == getattr(ours, key)
