"""Explanation of the steps of a log alone, of any framework, with what the caller
states.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchrun import hardware, kept
from benchrun.capabilities.traces.usecase import fingerprint_of_steps, trace_hint
from benchrun.errors import BenchrunError, NoNumberError, UserError
from benchrun.judge.checks import unreliable
from benchrun.logs import Log
from benchrun.measure.model import Measurement, Summary, Window
from benchrun.measure.rows import CompletedRows
from benchrun.measure.setting import Setting, setting_of_log
from benchrun.measure.statistics import Floats
from benchrun.rundir.folder import unpacked
from benchrun.rundir.network import read_network
from benchrun.usecases.measurement import read_log, rows_of, summarise_log
from benchrun.usecases.settings import (
    NOTHING,
    check_options,
    completed_setting,
    setting_beside,
    training_of,
)
from benchrun.vocabulary import DEGREES

from .evidence import Evidence
from .explanation import explain
from .foreign import foreign_trace
from .model import FAULT_SHARE, Explanation
from .stages import explain_stages
from .timers import printed

FOLLOWING = 8
"""Steps behind the start, beside which its own ones are slow or not."""
UNFINISHED = "early_end"
"""Problem of a log whose job goes on, or was stopped: its steps are explained all the same."""
SAVING = re.compile(rb"(?i)saving (?:model |the )?checkpoint|saved checkpoint|checkpoint saved?\b")
"""Lines that frameworks print when they write a checkpoint."""
ASYNC = re.compile(
    rb"(?i)scheduled (?:an )?async checkpoint save|"
    rb"\basync_(?:save|checkpointing)['\"]?[ .:=]+true\b|\basync_mode['\"]?[ .:=]+['\"]?async"
)
"""Lines of Megatron, NeMo, MaxText and torchtitan that show asynchronous checkpoints.
"""
EXPERTS = re.compile(rb"(?i)\bmoe|experts?\b|load.balancing|z.loss|aux.loss")
OPTIONS = {
    "model": "--recipe",
    "gpu": "--gpu",
    "precision": "--precision",
    "num_gpus": "--num-gpus",
}
OPTIONS |= {"seq_length": "--seq-length", "gbs": "--gbs"}
"""Facts that decide the work of a step, and the option that states each if the log does
not.
"""

JOINED_S = 50.0
"""Seconds of rows joined into one: a clock of whole seconds then gives the mean step to
2 %.
"""


def explain_log(
    file: Path,
    given: Setting = NOTHING,
    recipe: str | None = None,
    framework: str | None = None,
    warmup: int | None = None,
    traces: Sequence[Path] = (),
) -> tuple[Explanation, str | None]:
    """Explain where the time of a step in the log ``file`` goes, and say why its
    numbers cannot be relied on (or None).

    ``given`` and ``recipe`` complete what the log states, ``traces`` are those of its
    job. NoNumberError for a file without steps or without their times, UserError for
    one of several logs, for a recipe of another model and for a trace that is not of
    the job.
    """
    log = read_log(file, framework)
    context = setting_of_log(
        log, setting_beside(log, completed_setting(recipe, given, takes_peak=False))
    )
    summary = summarise_log(log, context, [file], warmup)
    if log.post_training:
        return stages_of(str(file), summary), unreliable(summary)
    own = _evidence(file, log, given, context, summary, traces)
    if summary.fatal and summary.fatal.kind == UNFINISHED:
        own = replace(own, notes=(*own.notes, f"the log is unfinished: {summary.fatal.detail}"))
        return explain(own), None
    return explain(own), unreliable(summary)


def stages_of(name: str, numbers: Measurement | None) -> Explanation:
    """Explain a log of post-training by the stages of its steps.

    NoNumberError if no step was timed.
    """
    explanation = None
    if numbers:
        explanation = explain_stages(name, numbers)
    if explanation is None:
        raise NoNumberError("has no measured step", where=name)
    return explanation


def _evidence(
    file: Path, log: Log, given: Setting, context: Setting, summary: Summary, traces: Sequence[Path]
) -> Evidence:
    """Collect what the log and the traces hold; ``context`` is what the log states,
    completed by what is ``given``.
    """
    rows = rows_of(log, context)
    times, steps = steps_of(rows, summary.window)
    if not len(times):
        raise _no_times(log, summary, context, str(file))
    fingerprint = None
    if traces:
        fingerprint = fingerprint_of_steps(traces)
    ranks = len(fingerprint.ranks) if fingerprint else 1
    spec = training_of(log.framework, log.facts, context, ranks)
    here = kept.place(file)
    said = printed(unpacked(here), rows)
    one_stage = said is not None and spec.layout.pp == 1
    own = Evidence(
        name=str(file),
        spec=spec,
        times=times,
        steps=steps,
        **earlier_of(log, rows, summary.window),
        steadiness=summary.steadiness,
        fingerprint=fingerprint,
        printed=said,
        speaks_of_experts=EXPERTS.search(unpacked(here)) is not None,
        ranks=said.ranks if said and one_stage else None,
        ranks_from="the log's timers",
        network=read_network([here], 1),
        saves=saves(here, before_line=int(rows.line.max())),
        saves_async=saves_async(here),
        resolution_s=resolution_s(summary, steps),
        notes=(*check_options(log, _options(given)), *_notes(log, context, summary)),
        log_alone=True,
        work_known=not context.unknown_options
        and not any(name != "gpu" for name in _missing(context)),
    )
    if fingerprint and (why := foreign_trace(fingerprint, own)):
        raise UserError(f"the trace is not of {file}: {why}", where=", ".join(map(str, traces)))
    return own


def steps_of(rows: CompletedRows, window: Window | None) -> tuple[Floats, Floats]:
    """Times in seconds and numbers of the measured steps; empty without a ``window``."""
    rows = _measured_rows(rows, window)
    return rows.step_time_s, rows.step.astype("float64")


def earlier_of(log: Log, rows: CompletedRows, window: Window | None) -> dict[str, Any]:
    """Fields of the evidence on the steps before the ``window``, and on their work.

    A start makes steps slower than those that follow it, so that steps which are not are
    as good as any other.
    """
    measured = _measured_rows(rows, window)
    segments = np.unique(log.distinct.column("segment"))
    uneven = log.varying_length or log.actual_seq_length is not None or len(segments) > 1
    found: dict[str, Any] = {"same_work": not uneven}
    if window is None or not len(measured.step):
        return found
    rows = rows.chosen(rows.step < window.first_step)
    following = (1 + FAULT_SHARE) * np.median(measured.step_time_s[:FOLLOWING])
    slow = ~(rows.step_time_s <= following)
    after_start = int(np.flatnonzero(slow)[-1]) + 1 if slow.any() else 0
    kept_rows = np.arange(len(slow)) >= max(after_start, 1)
    rows = rows.chosen(kept_rows & rows.usable)
    return found | {"earlier": rows.step_time_s, "earlier_steps": rows.step.astype("float64")}


def joined_times(log: Log, given: Setting, window: Window | None) -> Floats:
    """Times in seconds as they can be compared: by a clock of whole seconds means over
    several rows.

    The times that such a clock shows are whole seconds, and so is their median.
    """
    rows = _measured_rows(rows_of(log, given), window)
    spans = rows.step_time_s * rows.interval
    parts = min(max(int(spans.sum() / JOINED_S), 1), len(spans))
    if not log.whole_seconds or parts == len(spans):
        return rows.step_time_s
    each = np.array_split(np.arange(len(spans)), parts)
    return np.array([spans[part].sum() / rows.interval[part].sum() for part in each])


def _measured_rows(rows: CompletedRows, window: Window | None) -> CompletedRows:
    """The rows with a time in the ``window``; none without one."""
    if window is None:
        return rows.chosen(np.zeros(len(rows.step), bool))
    inside = (rows.step >= window.first_step) & (rows.step <= window.last_step)
    return rows.measured(inside & (rows.step_time_s > 0))


def resolution_s(numbers: Measurement, steps: Floats) -> float:
    """Seconds to which times are rounded: a whole one, divided by the ``steps`` of a
    row; 0 for a finer clock.
    """
    if any(problem.kind == "coarse_clock" for problem in numbers.problems):
        return 1.0
    if not numbers.whole_seconds:
        return 0.0
    if len(steps) < 2:
        return 1.0
    return 1 / float(np.median(np.diff(steps)))


def saves(file: Path, before_line: int | None = None) -> bool:
    """Whether this log mentions that a checkpoint was written; ``before_line``: that of
    its last step.
    """
    text = unpacked(file)
    for each in SAVING.finditer(text):
        line = text.count(b"\n", 0, each.start()) + 1
        if before_line is None or line < before_line:
            return True
    return False


def saves_async(file: Path) -> bool:
    """Whether this log states that checkpoints are written asynchronously."""
    return ASYNC.search(unpacked(file)) is not None


def _missing(context: Setting) -> list[str]:
    """Fields that neither log nor caller states."""
    unknown = ("model",) if context.unknown_options else ()
    found = []
    for name in OPTIONS:
        if not getattr(context, name) and name not in unknown:
            found.append(name)
    return found


def _options(given: Setting) -> dict[str, Any]:
    """Facts that the caller states, without the model, which has a note of its own."""
    return {name: getattr(given, name) for name in OPTIONS if name != "model"}


def _notes(log: Log, context: Setting, summary: Summary) -> Iterator[str]:
    """Say what the log does not state, with the option that does, and what is assumed."""
    if context.unknown_options:
        options = ", ".join(context.unknown_options)
        yield f"the work at the GPU's peak is not separated: the FLOPs are not known with {options}"
    if lacking := _missing(context):
        names = ", ".join(
            name.replace("num_gpus", "number of GPUs").replace("_", " ") for name in lacking
        )
        options = ", ".join(OPTIONS[name] for name in lacking)
        yield f"the log does not state {names}: with {options} the work at the GPU's peak would be separated"
    elif hardware.gpu(context.gpu or "") is None and context.gpu != "CPU":
        yield f"the peak of {context.gpu} is not listed, so that the work at the peak is not separated"
    if not any(getattr(log.facts, name) for name in DEGREES):
        yield "the log does not state the layout: data-parallel ranks are assumed, which have no pipeline bubble"
    elif not log.facts.mbs:
        yield "the log does not state the micro-batch: 1 is assumed"
    if summary.only_average:
        yield "the log gives one time for all steps: a time of each would show slow ones"


def _no_times(log: Log, summary: Summary, context: Setting, where: str) -> BenchrunError:
    """Reason why no step of a log has a time: UserError if an option helps, else
    NoNumberError, as `parse` ends.
    """
    if not summary.num_steps:
        cause = ""
        if summary.fatal:
            cause = f": {summary.fatal.kind}, {summary.fatal.detail}"
        message = f"no step of any known framework{cause}"
        return NoNumberError(message, where=where, hint=trace_hint(Path(where)))
    rates = rows_of(log, context).tokens_per_s_per_gpu
    lacking = []
    for name in ("seq_length", "gbs", "num_gpus"):
        if not getattr(context, name):
            lacking.append(name)
    if lacking and (rates > 0).any():
        options = ", ".join(OPTIONS[name] for name in lacking)
        return UserError(
            f"its steps have no time; from their rates it follows with {options}", where=where
        )
    message = "its measured steps have no time"
    reasons = []
    for each in summary.problems:
        if each.kind.startswith("impossible"):
            reasons.append(f"{each.kind}: {each.detail}")
    if reasons:
        message += f" ({'; '.join(reasons)})"
    return NoNumberError(message, where=where)
