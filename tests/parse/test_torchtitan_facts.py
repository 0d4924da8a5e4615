"""What torchtitan prints of a run before its first step."""

from pathlib import Path

import pytest

from benchrun.frameworks.logs import parse_log
from benchrun.logs.records import Facts
from benchrun.measure.setting import shape


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


HEAD = "[rank0]:[titan] 2026-09-21 {} - torchtitan.trainer - INFO - "
STEP = (
    "step: {:2}  loss: {:8.5f}  grad_norm:  1.2000  memory: 222.66GiB(80.60%)  tps: 5,8{:02}  tflops: 515.96"
    "  mfu: 20.64%"
)
BATCH = (
    "Trainer is initialized with 98304 tokens per DP rank, 12582912 tokens per train step, gradient accumulation"
    " steps 1, maximum context length 8192, total steps 20 (warmup 2)"
)


def node() -> list[str]:
    """The lines of one node, as torchtitan prints them since August 2026."""
    mesh = "Building device mesh with parallelism: pp=1, dp_replicate=1, dp_shard=128, cp=1, tp=1, ep=4"
    lines = [(f"13:52:{49 + at}", text) for at, text in enumerate((mesh, BATCH, "Training starts at step 1"))]
    lines += [
        (f"13:{53 + step // 4}:{step % 4 * 15:02}", STEP.format(step, 12 - step / 4, step)) for step in range(1, 21)
    ]
    return [HEAD.format(time) + text + "\n" for time, text in (*lines, ("13:59:59", "Training completed"))]


def test_lines_of_other_nodes_that_come_late_are_no_second_training(tmp_path: Path) -> None:
    one, other, third = node(), node(), node()
    mixed = [*one[:8], *other[:16], *one[8:], *third, *other[16:]]
    (tmp_path / "x.log").write_text("".join(mixed))
    log = parse_log(tmp_path / "x.log")
    assert (len(log.steps), log.segments, log.problems) == (20, 1, ())
    assert (log.facts.gbs, log.facts.seq_length, log.facts.num_gpus) == (1536, 8192, 128)


def test_a_second_job_is_a_second_training_though_several_ranks_print(tmp_path: Path) -> None:
    day = [line for line in node() for _ in range(2)]
    text = "".join(day)
    (tmp_path / "x.log").write_text(text + text.replace("2026-09-21", "2026-09-22"))
    assert [problem.kind for problem in parse_log(tmp_path / "x.log").problems] == ["second_training"]


@pytest.mark.parametrize(
    ("line", "time_s", "loss"),
    [
        (STEP.format(2, 11.5, 1) + "  elapsed_time_per_step: 0.573s", 0.573, 11.5),  # torchtitan-npu
        (STEP.format(2, 11.5, 1) + "  elapsed_time_per_step: 0.5", None, 11.5),
        ("step:  2  grad_norm:  3.5  memory: 41.51GiB(29.69%)  tps: 5,801  tflops: 62.2  mfu: 6.3%", None, None),
    ],
)
def test_forks_add_a_time_and_leave_out_the_loss(
    tmp_path: Path, line: str, time_s: float | None, loss: float | None
) -> None:
    (tmp_path / "x.log").write_text(f"[rank0]:{line}\n")
    (row,) = parse_log(tmp_path / "x.log").steps
    assert (row.step, row.tokens_per_s_per_gpu, row.step_time_s, row.loss) == (2, 5801.0, time_s, loss)


@pytest.mark.parametrize(
    ("line", "precision", "task"),
    [
        ("Float8 training active with recipe rowwise", "fp8", None),
        ("Float8 training active with recipe mxfp4_cublas", "mxfp4", None),
        ("Swapped to MXLinear layers", "fp8", None),
        ("Converted Linear layers to MXFP8Linear", "fp8", None),
        ("Converted Linear layers to NVFP4Linear", "nvfp4", None),
        ("LoRA training active with rank=8, alpha=16 (all Linear layers)", None, "lora"),
    ],
)
def test_torchtitan_s_precision_and_adapters(tmp_path: Path, line: str, precision: str | None, task: str) -> None:
    head = "[rank0]:[titan] 2026-05-05 11:07:15,162 - root - INFO - "
    step = "step:  2  loss: 17.6339  grad_norm: 65.6288  memory: 14.95GiB(7.79%)  tps: 48,465  tflops: 425.98  mfu: 32%"
    (tmp_path / "x.log").write_text("".join(f"{head}{each}\n" for each in (line, step)))
    facts = parse_log(tmp_path / "x.log").facts
    assert (facts.precision, facts.task) == (precision, task)


LLAMA = (
    "Building llama3 8B with TransformerModelArgs(_enforced='x', dim=4096, n_layers=32, n_heads=32, n_kv_heads=8, "
    "vocab_size=128256, multiple_of=1024, ffn_dim_multiplier=1.3, norm_eps=1e-05, rope_theta=500000, max_seq_len=8192, "
    "depth_init=True, use_flex_attn=False, attn_mask_type='causal', eos_id=0)"
)
DEEPSEEK = (
    "Building deepseek_v3 16B with DeepSeekV3ModelArgs(max_batch_size=8, max_seq_len=4096, vocab_size=102400, "
    "dim=2048, inter_dim=10944, moe_inter_dim=1408, n_layers=27, n_dense_layers=1, n_heads=16, "
    "moe_args=MoEArgs(num_experts=64, num_shared_experts=2, score_func='softmax', top_k=6), "
    "q_lora_rank=0, kv_lora_rank=512, qk_nope_head_dim=128, "
    "qk_rope_head_dim=64, v_head_dim=128, original_seq_len=4096)"
)


def titan(tmp_path: Path, line: str) -> Facts:
    head = "[rank0]:[titan] 2025-11-05 11:07:15,162 - root - INFO - "
    step = "step:  2  loss: 17.6339  grad_norm: 65.6288  memory: 14.95GiB(7.79%)  tps: 8,465  tflops: 425.98  mfu: 32%"
    (tmp_path / "x.log").write_text("".join(f"{head}{each}\n" for each in (line, step)))
    return parse_log(tmp_path / "x.log").facts


def test_torchtitan_states_a_dense_model(tmp_path: Path) -> None:
    model = shape(titan(tmp_path, LLAMA))
    assert model is not None
    assert (model.ffn_hidden_size, model.num_query_groups, model.params_total) == (14336, 8, 8030261248)


def test_torchtitan_states_experts_and_latent_attention(tmp_path: Path) -> None:
    model = shape(titan(tmp_path, DEEPSEEK))
    assert model is not None and model.moe is not None and model.mla is not None
    assert (model.moe.shared_ffn_hidden_size, model.moe.leading_dense_layers, model.mla.q_lora_rank) == (2816, 1, None)
    assert model.params_total == pytest.approx(15.7e9, rel=0.01)


def test_masks_of_documents_are_unknown_work(tmp_path: Path) -> None:
    facts = titan(tmp_path, LLAMA.replace("'causal'", "'block_causal'"))
    assert facts.options == {"attn_mask_type": "block_causal"}
    assert shape(facts) is None
