"""What torchtitan prints of a run before its first step."""

from pathlib import Path

import pytest

from benchrun.frameworks.logs import parse_log


@pytest.mark.parametrize("words", ["gradient accumulation steps 1", "gradient_accumulation_steps: 1"])
def test_torchtitan_states_its_batch_and_how_its_pipeline_divides_it(tmp_path: Path, words: str) -> None:
    head = "[rank4]:[titan] 2026-05-05 11:07:15,162 - root - INFO - "
    lines = (
        "Building device mesh with parallelism: pp=2, dp_replicate=2, dp_shard=2, cp=1, tp=1, ep=2",
        "Using pipeline schedule Interleaved1F1B with 10 microbatches and 8 stages.",
        f"Trainer is initialized with local batch size 160, global batch size 640, {words}, sequence length 260, total"
        " steps 5000 (warmup 200)",
        "step: 10  loss: 1.5  grad_norm: 1.0  memory: 9GiB(9%)  tps: 4,420  tflops: 26.87  mfu: 1.0%",
    )
    (tmp_path / "x.log").write_text("".join(f"{head}{line}\n" for line in lines))
    facts = parse_log(tmp_path / "x.log").facts
    assert (facts.num_gpus, facts.pp, facts.vp, facts.ep) == (8, 2, 4, 2)
    assert (facts.gbs, facts.mbs, facts.seq_length) == (640, 16, 260)


@pytest.mark.parametrize(
    ("mesh", "expected"),
    [
        ("1-D device mesh with ['dp_shard'], [8]", (8, 1, 1, 1, 1)),
        ("3-D device mesh with ['pp', 'dp_replicate', 'tp'], [2, 3, 4]", (24, 4, 2, 1, 1)),
        ("2-D device mesh with ['dp_shard_mod_ep', 'dp_shard_in_ep'], [1, 8]", (8, 1, 1, 1, None)),
        ("2-D device mesh with ['dp', 'tp'], [4]", (None,) * 5),  # damaged
    ],
)
def test_torchtitan_s_mesh_of_active_dimensions(tmp_path: Path, mesh: str, expected: tuple[int | None, ...]) -> None:
    head = "[20251031 08:22:29][rank-1/8][INFO ] "
    lines = (
        f"Building {mesh}",
        "Float8 tensorwise scaled training active",
        "step:  2  loss: 17.6339  grad_norm: 65.6288  memory: 14.95GiB(7.79%)  tps: 48,465  tflops: 425.98  mfu: 32%",
    )
    (tmp_path / "x.log").write_text("".join(f"{head}{line}\n" for line in lines))
    facts = parse_log(tmp_path / "x.log").facts
    assert (facts.num_gpus, facts.tp, facts.pp, facts.cp, facts.ep) == expected
    assert facts.precision == "fp8"
