"""A log and the model it trained -> metrics.json: the numbers a person acts on, each with its convention."""

from __future__ import annotations

from typing import Literal

from benchrun import hardware
from benchrun.metrics.flops import flops_per_token
from benchrun.metrics.statistics import Spread
from benchrun.metrics.summary import MeanMedian, ProblemEntry, Summary, summarise
from benchrun.model import Frozen, ModelShape
from benchrun.parse.records import Log


class Conventions(Frozen):
    """One quantity under both FLOPs conventions."""

    full: float
    causal: float


class Mfu(Frozen):
    """Model FLOPs utilisation: fractions of a named peak, not percent."""

    divisor: str
    """Whose peak divides, e.g. ``H100 fp8 dense``."""
    peak_tflops: float
    full: float
    causal: float


class Window(Frozen):
    """The rows that the statistics cover."""

    first_step: int
    last_step: int
    rows: int
    warmup_rows_dropped: int


class Metrics(Frozen):
    """What one run measured. Without a window (no step was seen) there is no number."""

    schema_version: Literal[1] = 1
    framework: str
    gpu: str
    precision: str
    num_gpus: int
    complete: bool
    planned_steps: int
    num_steps: int
    window: Window | None
    step_time_s: Spread | None
    tokens_per_s_per_gpu: MeanMedian
    tflops_per_gpu: Conventions | None
    """From the median step time and our own count of FLOPs."""
    tflops_per_gpu_reported: MeanMedian
    mfu: tuple[Mfu, ...]
    """Against the peak of the run's precision first, then of BF16; empty for a GPU without a listed peak."""
    first_loss: float | None
    final_loss: float | None
    problems: tuple[ProblemEntry, ...]


def measure(
    log: Log,
    *,
    model: ModelShape,
    seq_length: int,
    gbs: int,
    num_gpus: int,
    gpu: str,
    precision: str,
    planned_steps: int,
    warmup: int | None = None,
) -> Metrics:
    """Metrics of one run. A rate above the GPU's peak is impossible: it becomes a problem and gives no number."""
    conditions = {"seq_length": seq_length, "global_batch_size": gbs, "num_gpus": num_gpus}
    summary = summarise(log, warmup=warmup, conditions=conditions)
    tflops = _tflops(summary, model, seq_length)
    mfu = _mfu(gpu, precision, tflops)
    problems = list(summary.problems)
    impossible = mfu[0] if mfu and mfu[0].causal > 1 else None
    if impossible:
        detail = f"{impossible.causal:.2f} of the peak of {impossible.divisor}: the steps cannot have been this fast"
        problems.append(ProblemEntry(kind="impossible_rate", line=None, detail=detail))
    losses = [step.loss for step in log.distinct if step.loss is not None]
    usable = summary.step_time_s is not None and impossible is None
    return Metrics(
        framework=log.framework,
        gpu=gpu,
        precision=precision,
        num_gpus=num_gpus,
        complete=summary.last_step is not None and summary.last_step >= planned_steps,
        planned_steps=planned_steps,
        num_steps=summary.num_steps,
        window=_window(log, summary) if usable else None,
        step_time_s=summary.step_time_s if usable else None,
        tokens_per_s_per_gpu=summary.tokens_per_s_per_gpu if usable else MeanMedian(mean=None, median=None),
        tflops_per_gpu=tflops if usable else None,
        tflops_per_gpu_reported=summary.tflops_per_gpu_reported,
        mfu=mfu if usable else (),
        first_loss=losses[0] if losses else None,
        final_loss=losses[-1] if losses else None,
        problems=tuple(problems),
    )


def _tflops(summary: Summary, model: ModelShape, seq_length: int) -> Conventions | None:
    tokens = summary.tokens_per_s_per_gpu.median
    if tokens is None:
        return None
    flops = flops_per_token(model, seq_length)
    return Conventions(full=tokens * flops.full / 1e12, causal=tokens * flops.causal / 1e12)


def _mfu(gpu: str, precision: str, tflops: Conventions | None) -> tuple[Mfu, ...]:
    known = hardware.gpu(gpu)
    if known is None or tflops is None:
        return ()
    peaks = {name: known.peak_tflops(name) for name in dict.fromkeys((precision, "bf16"))}
    return tuple(
        Mfu(
            divisor=f"{gpu} {name} dense",
            peak_tflops=peak,
            full=tflops.full / peak,
            causal=tflops.causal / peak,
        )
        for name, peak in peaks.items()
        if peak
    )


def _window(log: Log, summary: Summary) -> Window | None:
    rows = log.distinct[summary.warmup_rows_dropped :]
    if not rows:
        return None
    return Window(
        first_step=rows[0].step,
        last_step=rows[-1].step,
        rows=len(rows),
        warmup_rows_dropped=summary.warmup_rows_dropped,
    )
