"""Two statements of one speed, in one log: they agree, or there is no number."""

import json

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from shapes import MODELS

from benchrun import hardware
from benchrun.frameworks.logs import Reader
from benchrun.measure.setting import Setting
from benchrun.measure.summary import summarise

STEPS = 30
FACTORS = st.one_of(st.just(1.0), st.floats(0.2, 0.7), st.floats(1.4, 5))


GIVEN = Setting(seq_length=8192, gbs=128, num_gpus=8)


def said(text: str, given: Setting = GIVEN) -> str | None:
    reader = Reader()
    reader.feed(text.encode())
    reader.end()
    fatal = summarise(reader.log("x.log"), given=given).fatal
    return fatal.kind if fatal else None


def step_line(step: int, time_s: float) -> str:
    times = f"elapsed time per iteration (ms): {1000 * time_s:.1f}"
    return f" iteration {step:8d}/{STEPS:8d} | {times} | lm loss: {9 - step / 10:.6E} |\n"


def bridge(time_s: float, factor: float, *, before: bool) -> str:
    found = ""
    for step in range(1, STEPS + 1):
        lines = [
            f"Step Time : {factor * time_s:.2f}s GPU utilization: 300.0MODEL_TFLOP/s/GPU\n",
            step_line(step, time_s),
        ]
        found += "".join(lines if before else reversed(lines))
    return found


def deepspeed(time_s: float, factor: float, *, start_s: float, begin: int = 0, every: int = 1) -> str:
    """A line after ``every`` steps, the first steps of a process that began at step ``begin``."""
    found = ""
    for made in range(every, every * STEPS + 1, every):
        mean = factor * 128 * made / (start_s + made * time_s)
        rates = f"RunningAvgSamplesPerSec={mean}, CurrSamplesPerSec={128 / time_s}"
        step = begin + made
        found += f"[timer.py:264:stop] epoch=0/micro_step={step}/global_step={step}, {rates}, MemAllocated=1GB\n"
    return found


def mlperf(time_s: float, factor: float) -> str:
    found = ':::MLLOG {"key": "global_batch_size", "value": 128, "metadata": {}}\n'
    for step in range(1, STEPS + 1):
        value = {"throughput": factor * 128 / time_s, "train_step_time": time_s}
        event = {"key": "tracked_stats", "value": value, "metadata": {"step": step, "samples_count": 128 * step}}
        found += f":::MLLOG {json.dumps(event)}\n"
    return found


def trainer(time_s: float, *, run_time: float = 1.0, steps: float = 1.0, samples: float = 1.0) -> str:
    """Bars, and a summary whose values are these multiples of the true ones."""
    found = "  Total train batch size (w. parallel, distributed & accumulation) = 128\n"
    found += f"  Num Epochs = 1\n  Total optimization steps = {STEPS}\n"
    for step in range(1, STEPS + 1):
        minutes, second = divmod(int(step * time_s), 60)
        found += f" 9%|#   | {step}/{STEPS} [{minutes:02d}:{second:02d}<05:00, {time_s:.2f}s/it]\n"
        found += (
            f"{{'loss': {3 - step / 100}, 'grad_norm': 1.5, 'learning_rate': 2e-05, 'epoch': {step / STEPS:.2f}}}\n"
        )
    whole = STEPS * time_s
    rates = f"'train_samples_per_second': {samples * 128 * STEPS / whole:.3f}"
    rates += f", 'train_steps_per_second': {steps * STEPS / whole:.3f}"
    return found + f"{{'train_runtime': {run_time * whole:.4f}, {rates}, 'train_loss': 2.7, 'epoch': 1.0}}\n"


def wanted(factor: float) -> str | None:
    return None if factor == 1 else "contradictory_rate"


# About one resumed run in a thousand moves by chance as a run from step 0 would: one list of examples.
@settings(max_examples=80, deadline=None, derandomize=True)
@given(st.floats(2, 40), FACTORS, st.floats(0, 60), st.integers(0, 300), st.sampled_from([1, 10]))
def test_a_mean_over_all_steps_moves_as_they_do(
    time_s: float, factor: float, start_s: float, begin: int, every: int
) -> None:
    assert said(deepspeed(time_s, factor, start_s=start_s, begin=begin, every=every)) == wanted(factor)


@settings(max_examples=40, deadline=None)
@given(st.floats(2, 40), FACTORS, st.booleans(), st.floats(0, 300))
def test_statements_beside_each_other_agree(time_s: float, factor: float, before: bool, start_s: float) -> None:
    assert said(bridge(time_s, factor, before=before)) == wanted(factor)
    assert said(deepspeed(time_s, factor, start_s=start_s)) == wanted(factor)
    assert said(mlperf(time_s, factor)) == wanted(factor)


@pytest.mark.parametrize("time_s", [2.5, 11.3, 40.0])
@pytest.mark.parametrize(
    ("factors", "kind"),
    [
        ({}, None),
        ({"run_time": 0.5, "steps": 2.0, "samples": 2.0}, "contradictory_rate"),
        ({"steps": 2.0}, "contradictory_rate"),
        ({"samples": 2.0}, "contradictory_rate"),
    ],
)
def test_the_summary_of_a_trainer_agrees_with_its_log(
    time_s: float, factors: dict[str, float], kind: str | None
) -> None:
    assert said(trainer(time_s, **factors)) == kind


def growing(every: int, grown_at: int, *, consumed: bool) -> str:
    """Rows of ``every`` steps; the batch is 64 up to step ``grown_at``, then 128, which takes twice as long."""
    found, samples = "", 0
    for step in range(1, 20 * every + 1):
        samples += 64 if step <= grown_at else 128
        if step % every:
            continue
        small = min(max(grown_at - (step - every), 0), every) / every
        fields = [f"iteration {step:8d}/{20 * every:8d}", f"elapsed time per iteration (ms): {12000 - 6000 * small}"]
        fields += [f"consumed samples: {samples:12d}"] * consumed
        fields += [f"global batch size: {64 if step <= grown_at else 128:5d}", f"lm loss: {9 - step / 1e4:.6E}"]
        found += f" {' | '.join(fields)} |\n"
    return found


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 40), st.floats(0, 1), st.booleans())
def test_a_mean_over_a_change_of_batch_is_no_time_of_a_batch(every: int, share: float, consumed: bool) -> None:
    """The batch grows anywhere, in the last row too, whose time is then no other row's."""
    text = growing(every, grown_at=8 * every + round(12 * every * share), consumed=consumed)
    reader = Reader()
    reader.feed(text.encode())
    reader.end()
    found = summarise(reader.log("x.log"), given=Setting(seq_length=8192, num_gpus=8))
    assert found.fatal is None
    assert found.tokens_per_s_per_gpu.median == pytest.approx(64 * 8192 / 8 / 6)
    assert found.step_time_s.median == pytest.approx(found.global_batch_size * 6 / 64)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 40), st.sampled_from([32, 96, 128, 256, 1024]), st.integers(0, 10**9))
def test_consumed_samples_rise_by_the_batch(every: int, batch: int, before: int) -> None:
    """The typed batch is 128, and no line states it."""
    text = ""
    for step in range(every, STEPS * every + 1, every):
        samples = f"consumed samples: {before + batch * step:12d} |"
        line = step_line(step, 12.2).replace(f"/{STEPS:8d}", f"/{STEPS * every:8d}")
        text += line.replace(" | lm", f" | {samples} lm")
    assert said(text) == wanted(batch / 128)


@settings(max_examples=40, deadline=None)
@given(st.sampled_from([1024, 2048, 4096]), st.integers(1, STEPS - 1))
def test_short_samples_of_a_curriculum_exceed_no_peak(short: int, grown_at: int) -> None:
    """At the length of the last rows the first ones would be twice to eight times as fast."""
    text = ""
    for step in range(1, STEPS + 1):
        length = short if step < grown_at else 8192
        line = step_line(step, 12.2 * length / 8192)
        text += line.replace("| lm", f"| actual seqlen: {length:5d} | lm")
    reader = Reader()
    reader.feed(text.encode())
    reader.end()
    given = Setting(seq_length=8192, gbs=128, num_gpus=8, gpu="H100", precision="bf16", model=MODELS["llama3.1-8b"])
    found = summarise(reader.log("x.log"), given=given)
    assert found.fatal is None
    assert found.tokens_per_s_per_gpu.median == pytest.approx(128 * 1024 / 12.2)
    assert "impossible_step" not in {problem.kind for problem in found.problems}


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(list(MODELS)), st.sampled_from(["bf16", "fp8", None]), st.floats(0.02, 50))
def test_no_listed_gpu_is_faster_than_a_run_on_an_unknown_one(name: str, precision: str | None, share: float) -> None:
    """``share`` of the highest peak of its precision, by the count of the causal half."""
    given = Setting(seq_length=8192, gbs=128, num_gpus=8, precision=precision, model=MODELS[name])
    peak = max(hardware.gpu(each).peak_tflops(precision or "fp8") or 0 for each in hardware.names())
    time_s = 128 * 1024 * given.flops_per_token().causal / (share * peak * 1e12)
    reader = Reader()
    reader.feed("".join(step_line(step, time_s) for step in range(1, STEPS + 1)).encode())
    reader.end()
    found = summarise(reader.log("x.log"), given=given)
    assume(abs(share - 1) > 0.1)
    assert ("impossible_rate" in {problem.kind for problem in found.problems}) == (share > 1)
    assert (found.step_time_s is None) == (share > 1)


def test_the_utilization_may_stand_on_the_line_after_the_row() -> None:
    reader = Reader()
    reader.feed(bridge(5.0, 1.0, before=False).encode())
    reader.end()
    assert summarise(reader.log("x.log")).tflops_per_gpu_reported.median == 300


def beside(rate: str, factor: float, before: bool) -> str:
    """Steps of 12.2 s of 128 samples of 8192 tokens on 8 GPUs, with another statement of the speed or the batch."""
    tokens = factor * 128 * 8192
    values = {
        "samples/sec": f"{factor * 128 / 12.2:.3f}",
        "tokens/s/gpu": f"{tokens / 12.2 / 8:.1f}",
        "tokens per sec": f"{tokens / 12.2:.0f}",
    }
    found = ""
    for step in range(1, STEPS + 1):
        line = step_line(step, 12.2)
        value = f"{tokens * step:.0f}" if rate == "consumed tokens" else values[rate]
        found += f"{rate}: {value} |{line}" if before else line.replace(" lm", f" {rate}: {value} | lm")
    return found


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(["samples/sec", "tokens/s/gpu", "tokens per sec", "consumed tokens"]),
    st.one_of(st.just(1.0), st.floats(0.3, 0.9), st.floats(1.1, 5)),
    st.booleans(),
)
def test_a_rate_anywhere_on_the_line_agrees(rate: str, factor: float, before: bool) -> None:
    assert said(beside(rate, factor, before)) == wanted(factor)


@settings(max_examples=40, deadline=None)
@given(FACTORS, st.sampled_from(["tokens_per_sec", "consumed_tokens", "global_batch_size"]))
def test_what_nanotron_counts_agrees(factor: float, name: str) -> None:
    text = ""
    for step in range(1, STEPS + 1):
        tokens = 128 * 8192
        stated = {"consumed_tokens": tokens * step, "tokens_per_sec": tokens / 12.2, "global_batch_size": tokens}
        stated[name] *= factor
        fields = " | ".join(f"{each}: {value / 1e6:.3f}M" for each, value in stated.items())
        text += (
            f"[INFO]: iteration: {step} / {STEPS} | time_per_iteration_ms: 12.2K | {fields} | lm_loss: {9 / step:.3g}\n"
        )
    assert said(text) == wanted(factor)


@settings(max_examples=40, deadline=None)
@given(FACTORS, st.sampled_from(["tokens/s/gpu", "samples/sec", "nanotron"]))
def test_a_counter_agrees_with_the_rate_of_a_log_without_a_batch(factor: float, form: str) -> None:
    text, tokens = "", 128 * 8192
    for step in range(1, STEPS + 1):
        counted = round(factor * step * tokens)
        if form == "nanotron":
            text += f"[INFO]: iteration: {step} / {STEPS} | consumed_tokens: {counted / 1e6:.3f}M"
            text += f" | time_per_iteration_ms: 12.2K | tokens_per_sec: {tokens / 12.2e3:.1f}K"
            text += f" | tokens_per_sec_per_gpu: {tokens / 12.2e3 / 8:.2f}K | lm_loss: {9 / step:.3g}\n"
            continue
        words = f"consumed tokens: {counted} | tokens/s/gpu: {tokens / 12.2 / 8:.1f}"
        if form == "samples/sec":
            words = f"consumed samples: {round(factor * step * 128)} | {form}: {128 / 12.2:.3f}"
        text += step_line(step, 12.2).replace("| lm", f"| {words} | lm")
    assert said(text, Setting(num_gpus=8 if form == "tokens/s/gpu" else None)) == wanted(factor)


@pytest.mark.parametrize(
    ("labels", "ranks", "kind"),
    [
        (0.4, 8, None),
        (1.0, 4, None),
        (2.0, 8, "contradictory_rate"),
        (0.4, 16, "contradictory_layout"),
    ],
)
def test_what_automodel_counts_agrees(labels: float, ranks: int, kind: str | None) -> None:
    """Tokens with a label are some of the batch; ranks that share it are some of the GPUs."""
    text, rate = "World size: 8\n", 128 * 8192 / 12.2
    for step in range(STEPS):
        text += f"step {step} | epoch 0 | loss {9 - step / 10:.4f} | grad_norm 1.0000 | lr 1.00e-05 | mem 30.25 GiB"
        text += f" | tps {rate:.2f}({rate / ranks:.2f}/gpu) | num_label_tokens {labels * 128 * 8192:.0f}\n"
    assert said(text) == kind


@pytest.mark.parametrize(("batch", "kind"), [(128, None), (256, "contradictory_rate"), (64, "contradictory_rate")])
def test_the_summary_of_a_trainer_agrees_with_a_typed_batch(batch: int, kind: str | None) -> None:
    text = trainer(11.3).partition("\n")[2]  # without the line of the total batch
    reader = Reader()
    reader.feed(text.encode())
    reader.end()
    fatal = summarise(reader.log("x.log"), given=Setting(seq_length=8192, gbs=batch, num_gpus=8)).fatal
    assert (fatal.kind if fatal else None) == kind
