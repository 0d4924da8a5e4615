"""Python's garbage is collected between steps: a collection that starts by itself stops one rank, and so all."""

from __future__ import annotations

import gc

from benchrun.spec.runspec import RunSpec


def hold(spec: RunSpec) -> None:
    """No collection by itself from here on, unless ``training.manual_gc_interval`` is 0."""
    if spec.training.manual_gc_interval:
        gc.disable()


def collect(spec: RunSpec, step: int) -> None:
    """Collect after the steps whose turn it is, the same on every rank."""
    interval = spec.training.manual_gc_interval
    if interval and step % interval == 0:
        gc.collect()
