"""Steps that no range marks: a collective that recurs once a step separates them, one that recurs by layer does not."""

from pathlib import Path
from typing import Any

import pytest
from made import fingerprint, kernel

from benchrun.errors import UserError

STEPS, LAYERS = 4, 6
SEND = "ncclDevKernel_SendRecv"


def _layers(step: int) -> list[dict[str, Any]]:
    starts = [1000 * step + 100 * layer for layer in range(LAYERS)]
    return [event for start in starts for event in (kernel(start, 60), kernel(start + 60, 30, SEND))]


def test_a_collective_that_recurs_once_a_step_separates_steps(tmp_path: Path) -> None:
    last = [kernel(1000 * step + 700, 100, "ncclDevKernel_AllReduce") for step in range(STEPS)]
    result = fingerprint(tmp_path, [event for step in range(STEPS) for event in _layers(step)] + last, window="steps")
    assert (result.steps, result.window_s) == (3, pytest.approx(3e-3))
    assert any("no range marks a step" in note and "all_reduce" in note for note in result.notes)


def test_a_collective_of_each_layer_separates_no_steps(tmp_path: Path) -> None:
    """Every third layer has a kernel of its own, as layers of attention across sequences have."""
    layers = [event for layer in range(12) for event in (kernel(100 * layer, 60), kernel(100 * layer + 60, 30, SEND))]
    others = [kernel(100 * layer + 90, 10, "layer_norm") for layer in range(0, 12, 3)]
    with pytest.raises(UserError, match="no collective recurs once a step"):
        fingerprint(tmp_path, layers + others, window="steps")
