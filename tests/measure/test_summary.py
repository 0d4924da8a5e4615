"""What is computed from rows, what is left out, and what is said of it."""

from dataclasses import replace
from typing import Any

import pytest

from benchrun import hardware
from benchrun.logs import Facts, Log, Rows, Step
from benchrun.measure.setting import Setting, setting_of_log, shape
from benchrun.measure.summary import summarise
from benchrun.model import ModelShape

LLAMA31_8B = ModelShape(
    num_layers=32,
    hidden_size=4096,
    ffn_hidden_size=14336,
    num_attention_heads=32,
    num_query_groups=8,
    kv_channels=128,
    vocab_size=128256,
    max_position_embeddings=131072,
)


def log(times: list[Any], *, facts: Facts = None, framework: str = "megatron-lm", **columns: list[Any]) -> Log:
    rows = Rows(
        Step(n, time, n, loss=2.0 - n * 1e-6, **{name: values[n - 1] for name, values in columns.items()})
        for n, time in enumerate(times, start=1)
    )
    return Log("x.log", framework, rows, facts or Facts(planned_steps=len(times)))


GIVEN = Setting(seq_length=8192, gbs=128, num_gpus=8, gpu="H100", precision="bf16", model=LLAMA31_8B)
"""12.91 s was published for this point: 10153 tokens/s/GPU."""


def test_everything_follows_from_the_step_time_and_the_conditions() -> None:
    summary = summarise(log([12.91] * 50), given=GIVEN)
    assert summary.tokens_per_s_per_gpu.median == pytest.approx(8192 * 128 / 8 / 12.91)
    assert summary.tflops_per_gpu.full == pytest.approx(10153 * 57.91e9 / 1e12, rel=1e-3)
    assert summary.mfu[0].divisor == "H100 bf16 dense"
    assert summary.mfu[0].causal == pytest.approx(10153 * 51.47e9 / 989e12, rel=1e-3)
    assert (summary.window.first_step, summary.window.last_step, summary.window.rows) == (6, 50, 45)


def test_a_rate_without_a_time_becomes_one() -> None:
    rates = [10153.0] * 50
    summary = summarise(log([None] * 50, framework="torchtitan", tokens_per_s_per_gpu=rates), given=GIVEN)
    assert summary.step_time_s.median == pytest.approx(8192 * 128 / 8 / 10153)
    assert summarise(log([None] * 50, tokens_per_s_per_gpu=rates)).step_time_s is None


def test_the_reported_tflops_name_their_convention() -> None:
    for factor, name in ((57.91, "full"), (51.47, "causal"), (48.18, "six_n"), (99.0, None)):
        reported = [10153 * factor / 1e3] * 50
        summary = summarise(log([12.91] * 50, tflops_per_gpu=reported), given=GIVEN)
        assert summary.reported_convention == name


def test_a_step_above_the_peak_is_left_out_and_a_run_above_it_gives_no_number() -> None:
    times = [12.91] * 50
    times[20] = 5.9  # twice the published rate: above H100's BF16 peak, but not three times the median
    summary = summarise(log(times), given=GIVEN)
    assert [(p.kind, p.line) for p in summary.problems] == [("impossible_step", 21)]
    assert summary.step_time_s.p5 == 12.91
    whole = summarise(log([5.0] * 50), given=GIVEN)
    assert (whole.step_time_s, whole.tokens_per_s_per_gpu.median, whole.mfu, whole.window) == (None, None, (), None)
    assert [problem.kind for problem in whole.problems] == ["impossible_rate"]


@pytest.mark.parametrize(
    ("fast", "kinds"), [(12, {"impossible_step"}), (13, {"impossible_rate"}), (24, {"impossible_rate"})]
)
def test_a_log_in_which_many_steps_are_above_the_peak_gives_no_number(fast: int, kinds: set[str]) -> None:
    """The slower half of the steps of a noisy log fits any sequence length; its speed is none of the log's."""
    summary = summarise(log([5.0, 12.91] * fast + [12.91] * (50 - 2 * fast)), given=GIVEN)
    assert {problem.kind for problem in summary.problems} == kinds
    assert (summary.step_time_s is None) == (kinds == {"impossible_rate"})


def test_what_only_fp8_reaches_is_possible_where_nobody_says_the_precision() -> None:
    """At 6.2 s a step it is 1.10 of H100's BF16 peak."""
    times, unknown = [6.2] * 50, replace(GIVEN, precision=None)
    assert summarise(log(times), given=GIVEN).step_time_s is None
    found = summarise(log(times), given=unknown)
    assert (found.problems, found.step_time_s.median) == ((), 6.2)
    assert [mfu.divisor for mfu in found.mfu] == ["H100 bf16 dense"]
    beyond = summarise(log([3.0] * 50), given=unknown)
    assert beyond.problems[0].detail.startswith("1.14 times the peak of H100 fp8 dense")
    mixed = summarise(log([6.2] * 40 + [7.0] * 60), given=unknown)  # 0.97 of BF16's
    assert mixed.problems == ()


def test_steps_of_another_batch_are_not_impossible() -> None:
    times, batches = [4.0] * 20 + [16.0] * 60, [32] * 20 + [128] * 60
    found = summarise(log(times, global_batch_size=batches))
    assert {problem.kind for problem in found.problems} == {"other_batch"}
    assert summarise(log([16.0] * 77 + [4.0] * 3)).problems != ()


def test_a_batch_that_grows_is_measured_at_its_last_size() -> None:
    """The median over both sizes would be 4 s, at a batch that takes 16."""
    times, batches = [4.0] * 60 + [16.0] * 40, [32] * 60 + [128] * 40
    found = summarise(log(times, global_batch_size=batches), given=GIVEN)
    assert (found.step_time_s.median, found.global_batch_size, found.window.first_step) == (16.0, 128, 61)
    assert found.tokens_per_s_per_gpu.median == 8192 * 128 / 8 / 16
    (left_out,) = found.problems
    assert (left_out.kind, left_out.line) == ("other_batch", 1)


def test_windows_of_others_are_shown_beside_ours() -> None:
    times = [2.0] * 5 + [1.0] * 30 + [1.5] * 10 + [1.1] * 55
    windows = summarise(log(times)).other_windows
    assert (windows.last_10_rows, windows.steps_35_to_44) == (pytest.approx(1.1), pytest.approx(1.45))
    rows = Rows(Step(n, times[n - 1], n, interval=10) for n in range(10, 101, 10))
    assert summarise(Log("x.log", "megatron-lm", rows, Facts())).other_windows.steps_35_to_44 is None
    short = summarise(log([1.0] * 9)).other_windows
    assert (short.last_10_rows, short.steps_35_to_44) == (None, None)


def test_a_slow_step_every_tenth_and_a_drift_are_named() -> None:
    periodic = summarise(log([1.2 if n % 10 == 0 else 1.0 + n % 3 / 1000 for n in range(100)])).steadiness
    assert (periodic.verdict, periodic.period) == ("periodic", 10)
    drifting = summarise(log([1.0 + n / 1000 + n % 3 / 1000 for n in range(100)])).steadiness
    assert drifting.verdict == "drifting"
    assert summarise(log([1.0 + n * 7 % 5 / 1000 for n in range(100)])).steadiness.verdict == "steady"


def test_the_log_is_believed_before_the_caller() -> None:
    facts = Facts(seq_length=4096, num_gpus=16, device="NVIDIA H200", precision="fp8")
    found = setting_of_log(log([1.0] * 5, facts=facts, global_batch_size=[64] * 5), GIVEN)
    assert (found.seq_length, found.num_gpus, found.gpu, found.precision) == (4096, 16, "H200", "fp8")
    assert (found.gbs, found.model) == (64, LLAMA31_8B)


@pytest.mark.parametrize("device", ["NVIDIA L4", "NVIDIA H100 80GB HBM3 MIG 3g.40gb"])
def test_a_gpu_that_is_not_listed_has_no_peak_whatever_the_caller_expects(device: str) -> None:
    found = summarise(log([12.91] * 50, facts=Facts(planned_steps=50, device=device)), given=GIVEN)
    assert (found.gpu, found.mfu) == (device, ())
    assert found.tflops_per_gpu is not None


def test_a_model_that_the_dimensions_do_not_describe_is_none() -> None:
    dimensions = {
        "num_layers": 32,
        "hidden_size": 4096,
        "ffn_hidden_size": 14336,
        "num_attention_heads": 32,
        "num_query_groups": 8,
        "vocab_size": 128256,
        "gated": True,
    }
    assert shape(Facts(**dimensions)).params_total == LLAMA31_8B.params_total
    assert shape(Facts(**dimensions, grouped=False)).num_query_groups == 32
    assert shape(Facts(**dimensions, options={"multi_latent_attention": "True"})) is None
    for missing in dimensions:
        if missing != "num_query_groups":
            assert shape(Facts(**{**dimensions, missing: None})) is None


@pytest.mark.parametrize(
    ("device", "name"),
    [
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("NVIDIA H100 PCIe", "H100-PCIe"),
        ("NVIDIA H100 NVL", "H100-NVL"),
        ("NVIDIA H200", "H200"),
        ("NVIDIA GH200 480GB", "GH200"),
        ("NVIDIA A100-SXM4-80GB", "A100"),
        ("NVIDIA A100-SXM4-40GB", "A100-40GB"),
        ("A100-80", "A100"),
        ("A100-40", "A100-40GB"),
        ("NVIDIA B200", "B200"),
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", None),
        ("NVIDIA GeForce RTX 5090", None),
        ("cpu", None),
    ],
)
def test_a_device_is_the_listed_gpu_or_none(device: str, name: str | None) -> None:
    assert hardware.name_of(device) == name
