"""Which of several published numbers a run is held against."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchrun.compare.conditions import LAYOUT, Conditions
from benchrun.compare.references import Reference

SPEEDS = ("step_time_s", "tokens_per_s_per_gpu", "samples_per_s")
COUNTED = ("tflops_per_gpu", "mfu_percent")
"""Comparable only under a convention that we count too."""
CONVENTIONS = ("full", "causal")


def usable(entry: Reference) -> bool:
    """Whether a run can be held against ``entry`` at all."""
    if "misprint" in entry.flags:
        return False
    return entry.metric in SPEEDS or (entry.metric in COUNTED and entry.convention in CONVENTIONS)


def choose(entries: Sequence[Reference], ours: Conditions) -> Reference | None:
    """The best of the usable ``entries``, which all agree with ``ours`` on what must agree.

    The same framework wins, then the same image, then no flag, then a time or rate over TFLOPS and MFU, then the layout
    that shares most, then the newest.
    """
    return max((entry for entry in entries if usable(entry)), key=lambda entry: _rank(entry, ours), default=None)


def _rank(entry: Reference, ours: Conditions) -> tuple[Any, ...]:
    theirs = entry.key
    # Proxy is no flaw here: only proxies match a proxy.
    flawless = not set(entry.flags) - {"proxy"}
    layout = sum(_shares(theirs, ours, key) for key in LAYOUT)
    direct = entry.metric in SPEEDS
    same = (_shares(theirs, ours, "framework"), _shares(theirs, ours, "image"))
    return (*same, flawless, direct, layout, entry.source.date, entry.id)


def _shares(theirs: Conditions, ours: Conditions, key: str) -> bool:
    value = getattr(theirs, key)
    return value is not None and value == getattr(ours, key)
