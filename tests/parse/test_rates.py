"""Rates per GPU under the names, and in the places, in which forks and releases print them."""

from pathlib import Path

import pytest

from benchrun.frameworks.logs import parse_log
from benchrun.measure.summary import Summary, summarise


def summary(tmp_path: Path, text: str) -> Summary:
    (tmp_path / "x.log").write_text(text)
    return summarise(parse_log(tmp_path / "x.log"), warmup=0)


@pytest.mark.parametrize(
    ("fields", "tokens", "tflops"),
    [
        ("tokens/sec/gpu: 8000.5 | throughput per GPU (TFLOP/s/GPU): 412.3", 8000.5, 412.3),
        ("throughput (token/sec/GPU): 8000.5 | flop throughput (TFLOP/sec/GPU): 412.3", 8000.5, 412.3),
        ("Tokens per second per GPU (Tok/s/GPU): 2645.8", 2645.8, None),
        (
            "approx flops per GPU: 150.3TFLOPS | tokens/s/gpu: 2645.8 | total_token/month @ 2048 GPUs: 13T",
            2645.8,
            150.3,
        ),
        ("tokens per gpu per second (tgs): 142.6 | TFLOPs: 153.4", 142.6, 153.4),
        ("samples per second: 4.4 | TFLOPs: 153.4 | TGS: 142.6", 142.6, 153.4),
        ("tokens per GPU (tokens/s/GPU): 9801.4/9807.3 | seq_length: 8192", 9801.4, None),
        ("average tokens/s/GPU: 9801.4 | peak TFLOP/s/GPU: 989.0 | tokens per second: 78400.0", None, None),
    ],
)
def test_megatron_s_forks_name_the_unit(
    tmp_path: Path, fields: str, tokens: float | None, tflops: float | None
) -> None:
    line = " iteration {:8d}/      30 | elapsed time per iteration (ms): 1500.0 | " + fields + " | lm loss: 3.0E+00 |\n"
    found = summary(tmp_path, "".join(line.format(step) for step in range(1, 31)))
    assert (found.tokens_per_s_per_gpu.median, found.tflops_per_gpu_reported.median) == (tokens, tflops)


@pytest.mark.parametrize(
    ("last", "tokens", "tflops"),
    [
        ("TFLOPS_per_GPU: 48.58", None, 48.58),
        ("TFLOPS_per_GPU: 1.264e+03", None, 1264.0),
        ("tokens_per_sec_per_gpu: 1.073e+04", 10730.0, None),
        ("TFLOPS_per_GPU: 1.26", None, None),  # perhaps the beginning of 1.264e+03
        ("tokens_per_sec_per_gpu: 1.073e+0", None, None),
    ],
)
def test_a_rate_at_the_end_of_nemo_2_s_line_counts_where_it_is_whole(
    tmp_path: Path, last: str, tokens: float | None, tflops: float | None
) -> None:
    line = (
        "Training epoch 0, iteration {0}/29 | lr: 1e-06 | global_step: {0} | reduced_train_loss: 10.22"
        " | train_step_timing in s: 27.01 | consumed_samples: 512 | " + last + "\n"
    )
    found = summary(tmp_path, "".join(line.format(step) for step in range(30)))
    assert found.step_time_s is not None
    assert (found.step_time_s.median, found.num_steps) == (27.01, 30)
    assert (found.tokens_per_s_per_gpu.median, found.tflops_per_gpu_reported.median) == (tokens, tflops)


@pytest.mark.parametrize("name", ["num_input_tokens_seen", "num_tokens"])
def test_the_tokens_that_the_trainer_counts_give_its_rate(tmp_path: Path, name: str) -> None:
    head = (
        "  Instantaneous batch size per device = 2\n  Gradient Accumulation steps = 1\n"
        "  Total optimization steps = 60\n"
        "  Total train batch size (w. parallel, distributed & accumulation) = 16\n"
    )
    rows = "".join(
        f"{{'loss': '1.5', '{name}': '{14400.0 * step}', 'train_runtime': '{2.5 * step}', 'epoch': '{step / 60}'}}\n"
        for step in range(10, 61, 10)
    )
    assert summary(tmp_path, head + rows).tokens_per_s_per_gpu.median == pytest.approx(14400 / 2.5 / 8)


def test_of_a_resumed_run_the_tokens_before_are_no_rate(tmp_path: Path) -> None:
    row = "{{'loss': 1.5, 'num_tokens': {}, 'global_step/max_steps': '{}/60', 'elapsed_time': '{}m'}}\n"
    rows = "".join(row.format(1000.0 * step, step, step) for step in range(40, 61, 5))
    (tmp_path / "x.log").write_text(rows)
    assert parse_log(tmp_path / "x.log").quantities["tokens"] == dict.fromkeys((45, 50, 55, 60), 1000.0)


def test_the_mean_time_of_all_steps_is_a_clock(tmp_path: Path) -> None:
    def rows(first: int) -> str:
        clocks = {step: 99.0 + 20.25 * (step - 1) for step in range(first, 31)}
        line = "{{'loss': 0.29, 'iteration': '{}/30', 'train_speed(s/it)': {:.6f}}}\n"
        return "".join(line.format(step, clock / step) for step, clock in clocks.items())

    found = summary(tmp_path, rows(1)).step_time_s
    assert found is not None
    assert found.median == pytest.approx(20.25, rel=1e-5)
    assert summary(tmp_path, rows(12)).step_time_s is None  # perhaps resumed: then it counts from another step


def test_deepspeed_s_steps_have_the_arguments_that_megatron_printed(tmp_path: Path) -> None:
    arguments = {"seq_length": 2048, "global_batch_size": 16, "world_size": 16, "train_iters": 20}
    head = "".join(f"  {name} {'.' * (40 - len(name))} {value}\n" for name, value in arguments.items())
    steps = "".join(f"steps: {n} loss: 10.5 iter time (s): 28.800 samples/sec: 0.556\n" for n in range(1, 21))
    found = summary(tmp_path, head + steps)
    assert (found.framework, found.complete, found.num_gpus) == ("deepspeed", True, 16)
    assert found.tokens_per_s_per_gpu.median == pytest.approx(2048 / 28.8)


def primus(text: str, rank: int = 0) -> str:
    return f"[20260914 08:10:12][rank-{rank}/16][INFO ] [----module_utils.py:251] : {text}\n"


def test_primus_s_arguments_and_ranks(tmp_path: Path) -> None:
    arguments = {
        "seq_length": 8192,
        "global_batch_size": 256,
        "fp8": "hybrid",
        "expert_model_parallel_size": 8,
        "swiglu": True,
    }
    head = "".join(primus(f"  {name:<40} : {value}") for name, value in arguments.items())
    line = " iteration {:8d}/      30 | elapsed time per iteration (ms): 12800.0/12811.2 | lm loss: 3.0E+00 |"
    steps = "".join(primus(line.format(step), 15) for step in range(1, 31))
    found = summary(tmp_path, head + steps)
    assert (found.seq_length, found.num_gpus, found.precision, found.layout["ep"]) == (8192, 16, "fp8", 8)
    assert found.tokens_per_s_per_gpu.median == pytest.approx(256 * 8192 / 16 / 12.8)
    aligned_elsewhere = "".join(f"  {name:<40} : {value}\n" for name, value in arguments.items())
    assert summary(tmp_path, aligned_elsewhere + steps).seq_length is None


CONFIGURATION = {
    "yaml": (
        "model:\n  context_parallel_size: 2\n  pipeline_model_parallel_size: 4\n  seq_length: 131072\n"
        "  tensor_model_parallel_size: 2\n  virtual_pipeline_model_parallel_size: null\n"
        "dataset:\n  sequence_length: 8192\ntokenizer:\n  tensor_model_parallel_size: 1\n"
        "train:\n  eval_global_batch_size: 64\n  global_batch_size: 256\n  micro_batch_size: 2\n"
    ),
    "changed": (
        "[model] Non-default values (vs Mcore TransformerConfig):\n  context_parallel_size: 2  (Mcore default: 1)\n"
        "  pipeline_model_parallel_size: 8  (Mcore default: 1)\n[train]:\n  global_batch_size: 256\n"
        "  micro_batch_size: 2\n[dataset]:\n  sequence_length: 8192\n[tokenizer]:\n  tensor_model_parallel_size: 1\n"
    ),
}


@pytest.mark.parametrize("form", CONFIGURATION)
def test_bridge_s_configuration_gives_its_rate(tmp_path: Path, form: str) -> None:
    steps = "".join(f"Step Time : 12.{n:02}s GPU utilization: 531.9MODEL_TFLOP/s/GPU\n" for n in range(30))
    batches = "INFO:megatron.core.num_microbatches_calculator:setting number of microbatches to constant 32\n"
    found = summary(tmp_path, CONFIGURATION[form] + batches + steps)
    assert (found.seq_length, found.global_batch_size, found.num_gpus) == (8192, 256, 64)
    assert found.tokens_per_s_per_gpu.median == pytest.approx(256 * 8192 / 64 / 12.145, rel=1e-4)


def test_bridge_s_steps_alone_have_no_rate(tmp_path: Path) -> None:
    steps = "".join(f"Step Time : 12.{n:02}s GPU utilization: 531.9MODEL_TFLOP/s/GPU\n" for n in range(30))
    found = summary(tmp_path, "  global_batch_size: 256\n  seq_length: 8192\n" + steps)
    assert (found.num_gpus, found.seq_length, found.tokens_per_s_per_gpu.median) == (None, None, None)


def test_automodel_s_two_rates_give_its_gpus(tmp_path: Path) -> None:
    line = (
        "step {} | epoch 0 | loss 0.6974 | grad_norm 1.5 | lr 1.00e-05 | mem 24.90 GiB | tps {:.2f}({:.2f}/gpu) | n 2\n"
    )
    found = summary(tmp_path, "".join(line.format(n, 11278.5 + n, (11278.5 + n) / 8) for n in range(30)))
    assert (found.num_gpus, found.first_step, found.num_steps) == (8, 0, 30)
    assert found.tokens_per_s_per_gpu.median == pytest.approx(1411.6, rel=1e-3)


@pytest.mark.parametrize(("batch", "kinds"), [(512, []), (256, ["contradictory_rate"])])
def test_nemo_2_s_samples_rise_by_its_batch(tmp_path: Path, batch: int, kinds: list[str]) -> None:
    line = (
        "Training epoch 0, iteration {0}/29 | lr: 1e-06 | global_batch_size: {1} | global_step: {0}"
        " | reduced_train_loss: {2} | train_step_timing in s: 7.{0:03} | consumed_samples: {3}\n"
    )
    lines = [line.format(step, batch, 11 - step / 10, 512 * (step + 1)) for step in range(30)]
    found = summary(tmp_path, "".join(lines))
    assert [problem.kind for problem in found.problems] == kinds


def test_rounded_samples_of_nemo_2_say_nothing(tmp_path: Path) -> None:
    line = (
        "Training epoch 0, iteration {0}/29 | lr: 1e-06 | global_batch_size: 512 | global_step: {0}"
        " | reduced_train_loss: {1} | train_step_timing in s: 7.{0:03} | consumed_samples: {2:.4}\n"
    )
    lines = [line.format(step, 11 - step / 10, 512.0 * (step + 1e6) + 0.5) for step in range(30)]
    assert not summary(tmp_path, "".join(lines)).problems
