"""The same data and weights give the same loss and gradient norm in every layout of the same mathematics.

Each case is a real training of a few steps through torchrun, held to the one-process run step by step.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from benchrun.recipe.resolve import resolve
from benchrun.recipe.select import Request

pytestmark = pytest.mark.train
pytest.importorskip("torch", reason="training needs pip install 'benchrun[train]'")
pytest.importorskip("megatron.core", reason="training needs pip install 'benchrun[train]'")

SMALL = ("training.steps=4", "model.num_layers=4", "seq_length=64")
# FP32 sums in another order: seen differences stay below 5e-7 for dense models; routing of experts can amplify them
# over the steps (seen 5e-6).
TOLERANCE = {"tiny-llama": 2e-6, "tiny-mixtral": 2e-5}


def spec_for(recipe, ranks, *overrides, precision="fp32", **layout):
    """A RunSpec for any number of ranks, whether the recipe lists it or not."""
    base = resolve(Request(recipe, "CPU", precision, 1, overrides=(*SMALL, *overrides)))
    spread = base.layout.model_copy(update=layout)
    dp = ranks // (spread.tp * spread.pp * spread.cp)
    return base.model_copy(
        update={"layout": spread, "num_gpus": ranks, "dp": dp, "num_microbatches": base.gbs // (base.mbs * dp)}
    )


def run(tmp_path, spec, **env):
    """Start the worker's ranks and wait."""
    path = tmp_path / "spec.json"
    path.write_text(spec.model_dump_json())
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={spec.num_gpus}"]
    command += ["-m", "benchrun.trainer", "--spec", str(path)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **env}
    return subprocess.run(command, capture_output=True, text=True, timeout=180, env=environment, check=False)


def curve(tmp_path, spec):
    """Loss and gradient norm of every step."""
    result = run(tmp_path, spec)
    assert result.returncode == 0, result.stderr[-3000:]
    losses = [float(text) for text in re.findall(r"lm loss: (\S+)", result.stdout)]
    norms = [float(text) for text in re.findall(r"grad norm: (\S+)", result.stdout)]
    assert len(losses) == len(norms) == spec.training.steps
    return losses, norms


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """The one-process run of each model."""
    return {name: curve(tmp_path_factory.mktemp("alone"), spec_for(name, 1)) for name in TOLERANCE}


@pytest.mark.parametrize(
    ("recipe", "ranks", "layout", "overrides"),
    [
        ("tiny-llama", 2, {"tp": 2, "sequence_parallel": True}, ()),
        ("tiny-llama", 2, {"cp": 2}, ()),
        ("tiny-llama", 2, {"pp": 2, "vp": 2}, ()),
        ("tiny-llama", 2, {}, ()),
        ("tiny-llama", 2, {}, ("training.distributed_optimizer=false", "training.overlap_param_gather=false")),
        ("tiny-llama", 4, {"tp": 2, "pp": 2}, ()),
        ("tiny-llama", 1, {}, ("training.recompute={granularity: full, method: uniform, num_layers: 1}",)),
        ("tiny-mixtral", 2, {"ep": 2}, ()),
        ("tiny-mixtral", 2, {"tp": 2, "etp": 2, "sequence_parallel": True}, ()),
        ("tiny-mixtral", 4, {"pp": 2, "ep": 2}, ()),
    ],
    ids=["tp2-sp", "cp2", "pp2-vp2", "dp2", "dp2-plain-optimizer", "tp2-pp2", "recompute", "ep2", "etp2", "pp2-ep2"],
)
def test_a_layout_changes_nothing_but_speed(tmp_path, alone, recipe, ranks, layout, overrides):
    losses, norms = curve(tmp_path, spec_for(recipe, ranks, *overrides, **layout))
    assert losses == pytest.approx(alone[recipe][0], rel=TOLERANCE[recipe])
    assert norms == pytest.approx(alone[recipe][1], abs=2e-3)


def test_bf16_is_near_fp32_and_not_the_same(tmp_path, alone):
    losses, _ = curve(tmp_path, spec_for("tiny-llama", 1, precision="bf16"))
    assert losses == pytest.approx(alone["tiny-llama"][0], rel=0.02)
    assert losses != alone["tiny-llama"][0]


class TestFamilies:
    """The dimensions of other model families train too, and their loss falls."""

    @pytest.mark.parametrize(
        "overrides",
        [
            ("model.activation=squared-relu", "model.normalization=LayerNorm1p", "model.rotary_percent=0.5"),
            (
                "model.activation=gelu",
                "model.normalization=LayerNorm",
                "model.position_embedding=learned",
                "model.bias=true",
                "model.tied_embeddings=true",
                "model.num_query_groups=4",
            ),
        ],
        ids=["nemotron", "gpt3"],
    )
    def test_loss_falls_over_a_pipeline(self, tmp_path, overrides):
        losses, _ = curve(tmp_path, spec_for("tiny-llama", 2, *overrides, pp=2))
        assert losses[-1] < losses[0] - 0.2


def test_fp8_without_transformer_engine_is_refused(tmp_path):
    spec = spec_for("tiny-llama", 1).model_copy(update={"precision": "fp8"})
    result = run(tmp_path, spec)
    assert result.returncode != 0
    assert "fp8 needs a GPU and transformer-engine" in result.stderr
    assert "lm loss" not in result.stdout


def test_a_wrong_number_of_ranks_is_refused(tmp_path):
    result = run(tmp_path, spec_for("tiny-llama", 1).model_copy(update={"num_gpus": 1}), WORLD_SIZE="1")
    assert result.returncode == 0
    path = tmp_path / "spec.json"
    alone = [sys.executable, "-m", "benchrun.trainer", "--spec", str(path)]
    wrong = subprocess.run(
        alone, env={**os.environ, "RANK": "0", "WORLD_SIZE": "2"}, capture_output=True, text=True, check=False
    )
    assert wrong.returncode == 2
    assert "2 ranks were started, the run needs 1" in wrong.stderr


def test_the_step_line_is_megatrons_and_the_configuration_is_echoed_once(tmp_path):
    result = run(tmp_path, spec_for("tiny-llama", 2))
    line = re.compile(
        r"^ \[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6}\] iteration {8}1/ {7}4 \| consumed samples: {12}8 \| "
        r"elapsed time per iteration \(ms\): \d+\.\d \| learning rate: \d\.\d{6}E-\d\d \| global batch size: {5}8 \| "
        r"lm loss: \d\.\d{6}E[+-]\d\d \| loss scale: 1\.0 \| grad norm: \d+\.\d{3} \| "
        r"number of skipped iterations: {3}0 \| number of nan iterations: {3}0 \|$",
        re.MULTILINE,
    )
    assert len(line.findall(result.stdout)) == 1
    assert result.stdout.count("benchrun config: {") == 1
    assert '"device": "cpu", "backend": "gloo"' in result.stdout


def test_when_a_rank_dies_the_others_end_too(tmp_path):
    """Rank 1 finds no data; rank 0 waits for it in a collective."""
    spec = spec_for("tiny-llama", 2, tp=2)
    path = tmp_path / "spec.json"
    path.write_text(spec.model_dump_json())
    (tmp_path / "sitecustomize.py").write_text(
        "import os\nif os.environ.get('RANK') == '1':\n    import benchrun.trainer.data as d\n    d.batches = None\n"
    )
    result = run(tmp_path, spec, PYTHONPATH=str(tmp_path))
    assert result.returncode != 0
    assert "rank 1 failed" in result.stderr
