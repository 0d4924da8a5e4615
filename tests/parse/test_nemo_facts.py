"""What NeMo 1, NeMo 2 and Megatron-Bridge print of a run before its first step, so that a log alone will do."""

import json
from pathlib import Path
from typing import Any

import kept_runs
import pytest

from benchrun import api
from benchrun.frameworks.logs import parse_log
from benchrun.measure.setting import Setting, setting_of_log, shape
from benchrun.measure.summary import summarise

DEGREES = ("tp", "pp", "cp", "vp", "ep")
KEPT = (
    "llama3.1-8b-edb12527-20261124T195938Z-0f3b",  # Megatron-Bridge, pp 2, vp 2, FP8
    "mixtral-8x7b-40aa8981-20261122T184321Z-8aa3",  # Megatron-Bridge, ep 2
    "llama3-8b-lora-4f47c274-20261126T014211Z-1c70",  # Megatron-Bridge, adapters
    "gpt-20b-373b35d9-20261124T195938Z-cb5c",  # Megatron-Bridge, FSDP
    "nemotron4-15b-a3289950-20261126T012531Z-fb22",  # NeMo 2
    "llama2-7b-lora-5f2656c4-20261123T005909Z-5653",  # NeMo 2, adapters
    "llama3-8b-464bac3f-20261126T012040Z-a6b9",  # NeMo 1
)
ITERATION = "iteration {}/ 9 | elapsed time per iteration (ms): 800.0 | global batch size: 64 | lm loss: 2.0E+00 |"
STEP = "Step Time : 0.80s GPU utilization: 100.0MODEL_TFLOP/s/GPU"


@pytest.mark.parametrize("name", KEPT)
def test_what_a_log_states_is_what_was_run(name: str) -> None:
    run = kept_runs.folder(name)
    spec = json.loads((run / "spec.json").read_text())
    expected = {key: spec[key] for key in ("num_gpus", "gbs", "mbs", "seq_length", "precision")}
    expected |= {key: spec["layout"][key] for key in DEGREES}
    expected |= {key: spec["model"][key] for key in ("num_layers", "hidden_size", "vocab_size")}
    facts = parse_log(run / "stdout.log.xz").facts
    stated = {key: value for key in expected if (value := getattr(facts, key)) is not None}
    assert stated == {key: expected[key] for key in stated}
    assert {"num_gpus", "tp", "pp", "cp"} <= {*stated}
    assert (facts.task == "lora") is (spec["task"] == "lora")
    if spec["framework"] != "nemo2":
        assert {*stated} == {*expected}


def test_megatron_bridges_log_gives_the_tflops_that_it_prints() -> None:
    summary = summarise(parse_log(kept_runs.folder(KEPT[0]) / "stdout.log.xz"))
    assert summary.reported_convention == "causal"
    assert summary.tflops_per_gpu
    assert summary.tflops_per_gpu.causal == pytest.approx(summary.tflops_per_gpu_reported.median, rel=1e-3)


def bridge(tmp_path: Path, *model: str, after: str = "", label: str = "[+ 30.7] ") -> Any:
    """A Megatron-Bridge log with these settings of its model, each behind the label."""
    sizes = ("hidden_size: 64", "ffn_hidden_size: 128", "num_attention_heads: 4", "num_layers: 8")
    lines = [f"{label}  {line}  (Mcore default: 0)" for line in (*sizes, *model)]
    lines += [f"{label}  {line}" for line in ("global_batch_size: 64", "micro_batch_size: 2", "sequence_length: 128")]
    lines += [f"{label}  data_parallel_size: 1", f"{label}  tensor_model_parallel_size: 1"]
    lines += [f"{label}  vocab_size: 512", "setting number of microbatches to constant 4"]
    steps = [line for step in range(1, 10) for line in (STEP, ITERATION.format(step), after)]
    (tmp_path / "x.log").write_text("\n".join([*lines, *steps]) + "\n")
    return parse_log(tmp_path / "x.log")


@pytest.mark.parametrize("label", ["0: [default0]:", "  0: [default0]:", "node1: [default0]:", "node-1: "])
def test_a_key_of_the_summary_is_not_the_label_before_it(label: str, tmp_path: Path) -> None:
    log = bridge(tmp_path, "num_query_groups: 2", label=label)
    assert (log.facts.num_query_groups, log.facts.num_layers, log.facts.seq_length) == (2, 8, 128)
    assert not setting_of_log(log, Setting()).unknown_options


def test_a_list_on_the_lines_after_its_name_is_unknown(tmp_path: Path) -> None:
    log = bridge(
        tmp_path, "num_query_groups: 2  (Mcore default: 0)\n  window_size:\n  - 512\n  - 0\n  layernorm_epsilon: 1"
    )
    setting = setting_of_log(log, Setting())
    assert [option.split()[0] for option in setting.unknown_options] == ["window_size"]


def test_the_batch_gives_the_ranks_of_megatron_bridge(tmp_path: Path) -> None:
    split = ("tensor_model_parallel_size: 2", "pipeline_model_parallel_size: 4")
    facts = bridge(tmp_path, *split, "virtual_pipeline_model_parallel_size: 2").facts
    assert (facts.num_gpus, *(getattr(facts, name) for name in DEGREES)) == (64, 2, 4, 1, 2, 1)
    assert bridge(tmp_path, *split, "pipeline_model_parallel_layout: Et*4|t*4L").facts.vp is None
    assert bridge(tmp_path).facts.num_gpus == 8


@pytest.mark.parametrize(
    ("setting", "precision"), [("bf16: True", "bf16"), ("fp8: 'hybrid'", "fp8"), ("fp4: 'e2m1'", "nvfp4")]
)
def test_the_precision_of_megatron_bridge(tmp_path: Path, setting: str, precision: str) -> None:
    assert bridge(tmp_path, "bf16: True", setting).facts.precision == precision


@pytest.mark.parametrize(
    "part",
    [
        "linear_attention_freq: 4",
        "heterogeneous_block_specs: True",
        "new_attention_kernel: 'ring'",
    ],
)
def test_a_model_with_other_parts_has_no_flops(tmp_path: Path, part: str) -> None:
    assert shape(bridge(tmp_path).facts) is not None
    log = bridge(tmp_path, part)
    assert shape(log.facts) is None
    assert setting_of_log(log, Setting()).unknown_options == (part.replace(":", "").replace("'", ""),)


def test_parts_that_the_log_states_in_full_are_counted(tmp_path: Path) -> None:
    windowed = shape(bridge(tmp_path, "window_size: (63, 0)").facts)
    predicting = shape(bridge(tmp_path, "mtp_num_layers: 1").facts)
    assert windowed is not None and predicting is not None
    assert (windowed.window.size, predicting.mtp_layers) == (64, 1)


def test_sizes_of_latent_attention_that_a_summary_leaves_out_are_megatron_cores(tmp_path: Path) -> None:
    latent = shape(bridge(tmp_path, "multi_latent_attention: True", "q_lora_rank: 1536").facts)
    assert latent is not None and latent.mla is not None
    assert (latent.mla.q_lora_rank, latent.mla.kv_lora_rank, latent.mla.qk_width) == (1536, 512, 192)


def test_the_batches_of_a_validation_are_no_other_training(tmp_path: Path) -> None:
    log = bridge(tmp_path, after="setting number of microbatches to constant 16")
    assert (log.facts.num_gpus, log.problems, len(log.steps)) == (8, (), 9)


def nemo2(tmp_path: Path, pipeline: str) -> Any:
    """The facts of a NeMo 2 log whose rank 0 is in this group of pipeline stages."""
    groups = {"data": "[0, 2, 4, 6]", "context": "[0]", "tensor model": "[0, 1]", "pipeline model": pipeline}
    lines = [
        f"[NeMo I] Rank 0 has {kind} parallel group{' ' * (kind == 'data')}: {ranks}" for kind, ranks in groups.items()
    ]
    lines.append("[NeMo I] setting number of microbatches to constant 8")
    row = "Training epoch 0, iteration {0}/9 | lr: 1e-06 | global_batch_size: 64 | global_step: {0} | "
    lines += [row.format(step) + "train_step_timing in s: 0.5 | consumed_samples: 64" for step in range(10)]
    (tmp_path / "x.log").write_text("\n".join(lines) + "\n")
    return parse_log(tmp_path / "x.log").facts


def test_the_groups_of_rank_0_give_nemo_2_its_layout(tmp_path: Path) -> None:
    facts = nemo2(tmp_path, "[0]")
    assert (facts.num_gpus, facts.mbs, facts.tp, facts.pp, facts.cp) == (8, 2, 2, 1, 1)


def test_nemo_2_does_not_print_the_vp_of_a_pipeline(tmp_path: Path) -> None:
    facts = nemo2(tmp_path, "[0, 8]")
    assert (facts.num_gpus, facts.mbs, facts.tp, facts.pp, facts.vp) == (16, 2, None, None, None)


def nemo1(tmp_path: Path, *config: str) -> Any:
    """The facts of a NeMo 1 log with these lines of its configuration."""
    sizes = (
        "micro_batch_size: 1",
        "encoder_seq_length: 2048",
        "precision: bf16",
        "virtual_pipeline_model_parallel_size: null",
    )
    lines = [
        "[NeMo I] ",
        *(f"      {line}" for line in (*sizes, *config)),
        "[NeMo I] Padded vocab_size: 384, original 259",
    ]
    lines += [f"Epoch 0: :  50%|#| {step}/9 [00:0{step}<00:09, train_step_timing in s=1.0]" for step in range(1, 10)]
    (tmp_path / "x.log").write_text("\n".join(lines) + "\n")
    return parse_log(tmp_path / "x.log").facts


def test_the_configuration_of_nemo_1(tmp_path: Path) -> None:
    facts = nemo1(tmp_path, "activation: fast-swiglu", "fp8: true")
    assert (facts.precision, facts.gated, facts.vp, facts.vocab_size) == ("fp8", True, 1, 384)
    assert nemo1(tmp_path, "override_vocab_size: 512", "fp8: false").vocab_size == 512
    assert nemo1(tmp_path, "fp8: false").precision == "bf16"
    assert nemo1(tmp_path).seq_length == 2048


def test_samples_of_a_fine_tune_of_nemo_1_have_no_stated_length(tmp_path: Path) -> None:
    assert nemo1(tmp_path, "data:", "  train_ds:", "    micro_batch_size: 7").seq_length is None
    assert nemo1(tmp_path, "data:", "  train_ds:", "    micro_batch_size: 7").mbs == 1
    assert nemo1(tmp_path, "peft:", "  peft_scheme: lora").task == "lora"


def test_lightning_names_the_gpu_on_stderr() -> None:
    run = kept_runs.folder(KEPT[4])
    (log,), _ = api.read_logs([run / "stdout.log.xz", run / "stderr.log.xz"], None)
    assert summarise(log).gpu == "H100"
