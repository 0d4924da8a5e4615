"""What a log alone tells: the document that ``benchrun parse --json`` prints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from benchrun.metrics.statistics import Spread, spread, warmup_rows
from benchrun.model import Frozen
from benchrun.parse.records import Log, Problem, Step


class MeanMedian(Frozen):
    """The two middles of one quantity over the window."""

    mean: float | None
    median: float | None


class ProblemEntry(Frozen):
    """One problem found in the log."""

    kind: str
    line: int | None
    detail: str


class Summary(Frozen):
    """A log in numbers. What the log does not hold is null."""

    schema_version: Literal[1] = 1
    file: str
    framework: str
    segments: int
    first_step: int | None
    last_step: int | None
    planned_steps: int | None
    num_steps: int
    """Distinct step rows of the file."""
    complete: bool
    """The last planned step was seen."""
    warmup_rows_dropped: int
    step_time_s: Spread | None
    tokens_per_s_per_gpu: MeanMedian
    tflops_per_gpu_reported: MeanMedian
    seq_length: int | None
    global_batch_size: int | None
    num_gpus: int | None
    problems: tuple[ProblemEntry, ...]


def summarise(log: Log, *, warmup: int | None = None, conditions: dict[str, Any] | None = None) -> Summary:
    """Reduce ``log``; ``warmup`` rows are dropped (the default rule where None).

    ``conditions`` (seq_length, global_batch_size, num_gpus) fill in what the log does not say.
    """
    rows = log.distinct
    dropped = warmup_rows(len(rows)) if warmup is None else min(warmup, len(rows))
    window = rows[dropped:]
    known = _conditions(log, conditions or {})
    return Summary(
        file=log.file,
        framework=log.framework,
        segments=log.segments,
        first_step=rows[0].step if rows else None,
        last_step=rows[-1].step if rows else None,
        planned_steps=log.planned_steps,
        num_steps=len(rows),
        complete=bool(rows) and log.planned_steps is not None and rows[-1].step >= log.planned_steps,
        warmup_rows_dropped=dropped,
        step_time_s=spread([s.step_time_s for s in window], [s.interval for s in window]) if window else None,
        tokens_per_s_per_gpu=_middles(_tokens(window, known)),
        tflops_per_gpu_reported=_middles([s.tflops_per_gpu for s in window if s.tflops_per_gpu is not None]),
        problems=tuple(_entry(problem) for problem in log.problems),
        seq_length=known["seq_length"],
        global_batch_size=known["global_batch_size"],
        num_gpus=known["num_gpus"],
    )


def _conditions(log: Log, given: dict[str, Any]) -> dict[str, int | None]:
    """What the log says first; then what the caller knows."""
    printed = [step.global_batch_size for step in log.steps if step.global_batch_size is not None]
    said = {
        "seq_length": log.facts.seq_length,
        "global_batch_size": printed[-1] if printed else log.facts.global_batch_size,
        "num_gpus": log.facts.num_gpus,
    }
    return {key: value if value is not None else given.get(key) for key, value in said.items()}


def _tokens(window: Sequence[Step], known: dict[str, int | None]) -> list[float]:
    """Tokens/s/GPU of each row: from batch, sequence and time where they are known, else as reported."""
    seq_length, batch, gpus = known["seq_length"], known["global_batch_size"], known["num_gpus"]
    if seq_length and batch and gpus:
        return [seq_length * (s.global_batch_size or batch) / (s.step_time_s * gpus) for s in window]
    return [s.tokens_per_s_per_gpu for s in window if s.tokens_per_s_per_gpu is not None]


def _middles(values: Sequence[float]) -> MeanMedian:
    found = spread(values) if values else None
    return MeanMedian(mean=found.mean if found else None, median=found.median if found else None)


def _entry(problem: Problem) -> ProblemEntry:
    detail = f"{problem.source}: {problem.detail}" if problem.source else problem.detail
    return ProblemEntry(kind=problem.kind, line=problem.line, detail=detail)
