"""Experts to which Sinkhorn's algorithm assigns tokens (BASE): layouts with several experts per rank, ep below dp.

Each rank assigns the tokens that it has. Sequence parallelism splits those of a micro-batch, so layouts with tp have
losses of their own: they agree with each other, and are near those without.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from selection import some
from test_parity import TOLERANCE, Curve, curve, spec_for

pytestmark = pytest.mark.train
pytest.importorskip("torch", reason="training needs pip install '.[train]'")
pytest.importorskip("megatron.core", reason="training needs pip install '.[train]'")

EXPERTS = "num_experts: 8, topk: 1, ffn_hidden_size: 64"
BASE = f"model.moe={{{EXPERTS}, balance: sinkhorn, aux_loss_coeff: 0}}"
SPLIT = {"tp": 2, "sequence_parallel": True}


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Curve]:
    """By tp, the run with the fewest ranks, made once."""
    made: dict[int, Curve] = {}

    def run(tp: int) -> Curve:
        if tp not in made:
            layout: dict[str, Any] = {} if tp == 1 else {**SPLIT, "etp": 2}
            made[tp] = curve(tmp_path_factory.mktemp("reference"), spec_for("tiny-mixtral", tp, BASE, **layout))
        return made[tp]

    return run


@pytest.mark.parametrize(
    ("ranks", "layout"),
    some(
        [
            (4, {"ep": 2}),
            (4, {"pp": 2, "ep": 2}),
            (4, {**SPLIT, "pp": 2, "etp": 2}),
            (4, {**SPLIT, "ep": 2}),
            (4, {**SPLIT, "pp": 2, "ep": 2}),
        ],
        0,
    ),
    ids=["ep2-dp4", "pp2-ep2", "tp2-pp2", "tp2-ep2-dp2", "tp2-pp2-ep2"],
)
def test_a_layout_changes_nothing(
    tmp_path: Path, reference: Callable[[int], Curve], ranks: int, layout: dict[str, Any]
) -> None:
    losses, norms = curve(tmp_path, spec_for("tiny-mixtral", ranks, BASE, **layout))
    expected = reference(layout.get("tp", 1))
    assert losses == pytest.approx(expected[0], rel=TOLERANCE["tiny-mixtral"])
    assert norms == pytest.approx(expected[1], abs=2e-3)


def test_it_learns_as_well_with_split_sequences(reference: Callable[[int], Curve]) -> None:
    whole, split = reference(1)[0], reference(2)[0]
    assert whole[-1] < whole[0] - 0.2
    assert split == pytest.approx(whole, rel=1e-2)
    assert split != pytest.approx(whole, rel=TOLERANCE["tiny-mixtral"])
