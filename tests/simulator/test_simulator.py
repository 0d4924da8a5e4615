"""Histories of a simulated Slurm under the real launcher: nothing that must not be happens in any of them."""

import sys
from pathlib import Path

import pytest
from selection import some

sys.path.insert(0, str(Path(__file__).parent))
from history import History

COUNT = 300
"""Of the histories here; `python tests/simulator/run.py 20000` runs more of them."""
PARTS = 10


@pytest.mark.parametrize("part", some(range(PARTS), 3))
def test_no_history_loses_a_job_touches_another_s_or_stores_a_guess(part: int) -> None:
    found = {seed: findings for seed in range(part, COUNT, PARTS) if (findings := History(seed).run().findings)}
    assert not found, f"replay it: python tests/simulator/run.py --seed {min(found)}"


def test_looks_change_nothing() -> None:
    for seed in range(8):
        outcomes = [History(seed, looks, calm=True).run() for looks in (0, 1, 40)]
        assert not outcomes[0].findings, seed
        assert outcomes[0].outcome == outcomes[1].outcome == outcomes[2].outcome, seed
