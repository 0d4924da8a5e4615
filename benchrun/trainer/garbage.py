"""Python's garbage collection, between steps and on all ranks together: one rank that collects delays all."""

from __future__ import annotations

import gc

from benchrun.spec.runspec import RunSpec


def hold(spec: RunSpec) -> None:
    """Switch automatic collection off, unless ``training.manual_gc_interval`` is 0."""
    if spec.training.manual_gc_interval:
        gc.disable()


def collect(spec: RunSpec, step: int) -> None:
    """Collect after every ``manual_gc_interval`` steps."""
    interval = spec.training.manual_gc_interval
    if interval and step % interval == 0:
        gc.collect()
