"""A log and the setting of its run -> metrics.json: the numbers a person acts on, each with its convention."""

from __future__ import annotations

from collections.abc import Iterator

from benchrun import hardware
from benchrun.metrics.convention import explained
from benchrun.metrics.fatal import updates
from benchrun.metrics.model import Metrics, ProblemEntry, Summary
from benchrun.metrics.setting import Setting, stated
from benchrun.metrics.summary import summarise
from benchrun.parse.columns import NO_VALUE
from benchrun.parse.records import Log

LAST_DIGIT_TFLOPS, LAST_DIGIT_S = 0.05, 0.005
"""Half of the last digit that frameworks print of TFLOPS and of a step time."""


def measure(log: Log, setting: Setting, *, planned_steps: int | None, warmup: int | None = None) -> Metrics:
    """Metrics of one run. What the log states of its setting wins over ``setting``, and is a problem.

    ``setting`` names the GPU, their number and the precision. The first ``warmup`` rows are dropped, by default 5 or a
    tenth of the rows.
    """
    summary = summarise(log, warmup=warmup, given=setting, planned_steps=planned_steps)
    steps, skipped = updates(log)
    problems = (*summary.problems, *_other_conditions(log, setting), *_unexplained(log, summary, setting))
    own = {name: getattr(setting, name) for name in ("gpu", "precision", "num_gpus")}
    return Metrics(
        **{**summary.shared(), **own, "problems": problems},
        only_average=log.only_average,
        whole_seconds=log.whole_seconds,
        warmup=warmup,
        steps_timed=steps,
        skipped_updates=skipped,
    )


def _unexplained(log: Log, summary: Summary, setting: Setting) -> Iterator[ProblemEntry]:
    """A printed TFLOPS that contradicts our own count: the log is of another model, or of other conditions.

    Only where the log itself says how many tokens a step has: a batch that was typed in may be wrong instead.
    """
    printed, tokens = summary.tflops_per_gpu_reported.median, summary.tokens_per_s_per_gpu.median
    step = summary.step_time_s
    if not (printed and tokens and step and summary.seq_length and _states_tokens(log)):
        return
    if not log.printed_conventions or setting.task != "pretrain" or log.facts.exotic:
        return
    rounding = LAST_DIGIT_TFLOPS / printed + LAST_DIGIT_S / step.median
    models = [model for model in (setting.model, stated(log, setting).model) if model]
    ways = log.printed_conventions
    if any(explained(printed, tokens, model, summary.seq_length, ways, rounding=rounding) for model in models):
        return
    counted = summary.tflops_per_gpu
    ours = f", our own count is {counted.full:.4g} (full) or {counted.causal:.4g} (causal)" if counted else ""
    detail = f"the log prints {printed:.4g} TFLOPS{ours}: another model, sequence or batch was trained"
    yield ProblemEntry(kind="unexplained_tflops", line=None, detail=detail)


def _states_tokens(log: Log) -> bool:
    """Whether the log itself gives a batch or a rate."""
    rates = log.steps.columns.column("tokens_per_s_per_gpu")
    return stated(log, Setting()).gbs is not None or bool((rates != NO_VALUE).any())


def _other_conditions(log: Log, setting: Setting) -> Iterator[ProblemEntry]:
    """A problem for each value that the log states otherwise than the run was launched with."""
    logged = stated(log, Setting())
    for name in ("gpu", "num_gpus", "precision", "seq_length", "gbs"):
        found, meant = getattr(logged, name), getattr(setting, name)
        if found is not None and found != meant and not (name == "gpu" and _same_chip(found, meant)):
            detail = f"the log says {name} {found}, the run was to have {meant}"
            yield ProblemEntry(kind="other_conditions", line=None, detail=detail)


def _same_chip(one: str, other: str) -> bool:
    """Whether two cards differ in their memory alone."""
    first, second = hardware.gpu(one), hardware.gpu(other)
    if first is None or second is None or one.partition("-")[0] != other.partition("-")[0]:
        return False
    return first.peak_bf16_tflops == second.peak_bf16_tflops
