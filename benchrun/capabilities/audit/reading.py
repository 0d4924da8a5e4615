"""Logs of jobs -> what the audit needs of each, in as many processes as pay."""

import itertools
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np

from benchrun.errors import BenchrunError, UserError
from benchrun.frameworks.logs import parse_logs
from benchrun.logs import Log
from benchrun.logs.inputs import STDIN, SUFFIXES, LogFile, chunks, logs_in
from benchrun.logs.kinds import kind_of
from benchrun.logs.stamps import CHECKPOINT, RESTART, SAVED
from benchrun.measure.problems import fatal_problem
from benchrun.measure.rows import CompletedRows, completed_rows
from benchrun.measure.setting import Setting, setting_of, setting_of_log
from benchrun.measure.statistics import (
    NORMAL_95,
    Floats,
    Ints,
    confidence_interval,
    ranks,
    warmup_rows,
)
from benchrun.measure.summary import NO_SPEED
from benchrun.measure.training import updates
from benchrun.rundir.folder import RunDir
from benchrun.vocabulary import DEGREES

from .accounting import expanded, without_ids
from .effects import LEAST

MANY = 64
"""Groups of logs from which on several processes read them."""
TOGETHER = 100
"""Logs without a job's id in one folder up to which it is looked for files of one run."""
LOOK = 1 << 14
"""Bytes at both ends of a log that are searched for the job's id."""
_IDS = re.compile(
    rb"(?:SLURM_(?:ARRAY_)?JOB_?ID|\b(?i:job[ _]?id))\W{1,4}(\d+(?:_\d+)?)\b"
    rb"|\*\*\* (?:JOB|STEP) (\d+)|\bStepId=(\d+)|srun: job (\d+) |Submitted batch job (\d+)"
)
_TASK = re.compile(rb"SLURM_ARRAY_TASK_ID\W{1,4}(\d+)")
_NODES = re.compile(rb"SLURM_(?:JOB_)?NODELIST\W{1,3}([\w.\-]+(?:\[[\d,\-]+\][\w.\-]*)?)")
_NUMBER = re.compile(r"\d+(?:[_.\-]\d+)?")
_NAMED = re.compile(r"(?i)(?:slurm|job|jobid|id)[-_.]?(\d+(?:_\d+)?)|[-_.]o?(\d{5,}(?:_\d+)?)$")
"""A job's id in a name, where no accounting tells which numbers are ids."""
_DATE = re.compile(r"(19|20)\d{6}$")
NOT_ENDED = frozenset({"second_training", *NO_SPEED, "contradictory_result"})
"""Fatal problems of a log that end no job."""
PRINTED = ("step", "loss", "step_time_s", "tokens_per_s_per_gpu", "samples_per_s")
MOST_BETWEEN = 1000
"""Steps from one row to the next that a program may leave out."""
FEWEST_ROWS = 3
"""Rows on each side of a change inside a job."""
CERTAIN = 5.0
"""Standard errors of such a change, which may be at any row."""
_EVIDENCE = frozenset({"hardware", "resource", "failure", "remote", "fault", "peer", "exit"})
"""Roles of problems that end a job."""


class Part(NamedTuple):
    """Rows of a job between two changes of its step time."""

    first: int
    last: int
    """Place after its last row."""
    pace: float
    error: float


@dataclass(frozen=True)
class Reading:
    """What the logs of one job say."""

    log: str
    framework: str
    setting: Setting
    facts: Mapping[str, Any]
    """Other facts that make jobs differ: version, layout, micro-batch, options."""
    step: Ints
    """Numbers of the steps that count."""
    seconds: Floats
    """Seconds that each row of them stands for."""
    step_time_s: float | None
    pace: float | None
    """The step time, or what is proportional to it in jobs of one kind."""
    parts: tuple[Part, ...]
    """Pace before and after each change, with its relative standard error."""
    repeated_s: float
    """Time of steps that were made again later."""
    checkpoint_s: float
    """Time in which steps waited for checkpoints, as far as dates tell."""
    saves: tuple[int, int]
    """Checkpoints of which the dates tell how long steps waited, and the others."""
    restart_s: float
    """Time between the last step before a restart and the first after it; NaN if the
    log has no dates.
    """
    restarts: int
    saved: tuple[int, ...]
    """Steps whose checkpoints are known to be written."""
    begun: tuple[int, ...]
    """Steps after which a checkpoint was begun, and no line says that it was written."""
    planned: int | None
    complete: bool | None
    problem: str | None
    """The reason why the job ended, if its log has one."""
    began: float | None
    """Date of the first step, in s since 1970."""
    printed: int
    """Checksum of what its steps print."""
    job_id: str | None = None
    nodes: tuple[str, ...] = ()
    name: str = ""
    """What the file's name says of the workload."""


@dataclass(frozen=True)
class Group:
    """Files that are read together."""

    files: tuple[Path, ...]
    job_id: str | None = None
    nodes: str = ""
    run: Path | None = None


def read_folders(
    folders: Sequence[Path], known: Mapping[str, Any], sacct: Path | None = None
) -> tuple[list[Reading], list[tuple[str, str]]]:
    """The jobs whose logs lie in ``folders``, and each file that is not read, with the
    reason. ``known``: ids of jobs in the accounting, the file ``sacct``.
    """
    sources, not_read = _sources(folders, sacct)
    groups = _groups(sources, folders, known)
    if len(groups) < MANY:
        parts = [*map(_read, groups)]
    else:
        with ProcessPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            parts = [*pool.map(_read, groups, chunksize=16)]
    readings: dict[object, Reading] = {}
    for found, reasons in parts:
        not_read += reasons
        for each in found:
            same = (each.framework, each.began, each.printed)
            first = readings.setdefault(same, each)
            if first is not each:
                not_read.append((each.log, f"the same steps as {first.log}: a copy"))
    return [*readings.values()], not_read


def _sources(
    folders: Sequence[Path], sacct: Path | None
) -> tuple[list[LogFile], list[tuple[str, str]]]:
    """The logs in all folders, and every other file there but ``sacct``, with the
    reason.
    """
    sources: dict[Path, LogFile] = {}
    not_read = []
    hidden: dict[str, str] = {}
    for folder in folders:
        if folder == STDIN or not folder.exists():
            raise UserError("no such folder", where=str(folder))
        try:
            for source in logs_in([folder]):
                if sacct is None or not source.file.samefile(sacct):
                    sources.setdefault(source.file, source)
        except UserError as error:
            not_read.append((str(folder), error.message))
        runs = {source.run for source in sources.values()}
        for file in sorted(folder.rglob("*")):
            if not file.is_file() or file in sources or runs & {*file.parents}:
                continue
            if sacct is not None and file.samefile(sacct):
                continue
            inside = file.relative_to(folder)
            dotted = [each for each in (inside, *inside.parents) if each.name.startswith(".")]
            if dotted:
                hidden[str(folder / dotted[-1])] = "its name begins with a dot"
                continue
            endings = " ".join(sorted(SUFFIXES))
            not_read.append((str(file), f"no log by its name: logs end in {endings}"))
    return [*sources.values()], [*not_read, *hidden.items()]


def _groups(
    sources: Sequence[LogFile], folders: Sequence[Path], known: Mapping[str, Any]
) -> list[Group]:
    """The files of each job; those without an id by folder, where grouping decides."""
    jobs: dict[str, list[Path]] = {}
    nodes: dict[str, str] = {}
    runs: dict[Path, list[Path]] = {}
    others: dict[Path, list[Path]] = {}
    for source in sources:
        if source.run is not None:
            runs.setdefault(source.run, []).append(source.file)
            continue
        job_id, listed = _identified(source.file, folders, known)
        if job_id is None:
            others.setdefault(source.file.parent, []).append(source.file)
        else:
            jobs.setdefault(job_id, []).append(source.file)
            nodes[job_id] = nodes.get(job_id) or listed
    groups = [Group(tuple(files), name, nodes[name]) for name, files in jobs.items()]
    groups += [Group(tuple(files), run=run) for run, files in runs.items()]
    for files in others.values():
        if len(files) <= TOGETHER:
            groups.append(Group(tuple(files)))
            continue
        stems: dict[str, list[Path]] = {}
        for file in files:
            stems.setdefault(file.name.partition(".")[0], []).append(file)
        groups += [Group(tuple(each)) for each in stems.values()]
    return groups


def _stated(file: Path) -> tuple[list[str], str]:
    """Ids of a job, and its list of nodes, that stand in the log itself."""
    try:
        text = next(iter(chunks(file)))[:LOOK]
        with file.open("rb") as opened:
            if (size := file.stat().st_size) > LOOK:
                opened.seek(size - LOOK)
                text += opened.read()
    except (BenchrunError, OSError):
        return [], ""
    ids = []
    for groups in _IDS.findall(text):
        ids += [each.decode() for each in groups if each]
    if ids and (task := _TASK.search(text)):
        ids.insert(0, f"{ids[0]}_{task[1].decode()}")
    listed = _NODES.search(text)
    return ids, listed[1].decode() if listed else ""


def _numbers(names: Sequence[str]) -> Iterator[str]:
    """The numbers in names, those at an end first; ``123-4`` may be task 4 of array 123."""
    for name in names:
        for number in reversed(_NUMBER.findall(name)):
            whole = re.sub(r"[.\-]", "_", number)
            yield whole
            yield from reversed(whole.split("_"))


def _identified(
    file: Path, folders: Sequence[Path], known: Mapping[str, Any]
) -> tuple[str | None, str]:
    """The id of a log's job, and its list of nodes if the log has one: an id that the
    accounting has, from its name, its folders' names, or the log itself; else what looks
    like one.
    """
    names = [file.name]
    for folder in file.parents:
        if folder in folders:
            break
        names.append(folder.name)
    for each in _numbers(names):
        if each in known:
            return each, ""
    stated, nodes = _stated(file)
    for each in (*(each for each in stated if each in known), *stated):
        return each, nodes
    names[0] = file.name.partition(".")[0]
    for name in names:
        if (match := _NAMED.search(name)) and not _DATE.match(match[2] or ""):
            return match[1] or match[2], nodes
    return None, nodes


def _read(group: Group) -> tuple[list[Reading], list[tuple[str, str]]]:
    """Read the files of one group: its jobs, and the files that give none."""
    given, job_id = Setting(), group.job_id
    try:
        if group.run is not None:
            run = RunDir(group.run)
            given, job_id = setting_of(run.spec), run.job_id
        logs, left_out = parse_logs(*group.files, jobs=job_id is None)
    except BenchrunError as error:
        if len(group.files) == 1:
            return [], [(str(group.files[0]), str(error.message))]
        return _each(group)
    reasons = [(str(file), "belongs to several runs of its folder") for file in left_out]
    readings = []
    for log in logs:
        if not len(log.steps) or not log.framework:
            reasons += [(name, _no_steps(log)) for name in _files(log, group)]
            continue
        try:
            readings.append(reading_of(log, given))
        except BenchrunError as error:
            reasons.append((log.file, error.message))
    if job_id is None:
        return readings, reasons
    return [replace(each, job_id=job_id, nodes=tuple(_listed(group))) for each in readings], reasons


def _each(group: Group) -> tuple[list[Reading], list[tuple[str, str]]]:
    """Read the files of a group one by one, because one of them cannot be read."""
    readings, reasons = [], []
    for file in group.files:
        found, why = _read(replace(group, files=(file,)))
        readings += found
        reasons += why
    return readings, reasons


def _listed(group: Group) -> Iterator[str]:
    """The nodes that a log names; none if the list is damaged."""
    try:
        return iter([*expanded(group.nodes, str(group.files[0]))])
    except UserError:
        return iter(())


def _files(log: Log, group: Group) -> list[str]:
    """Names of the files of a log."""
    names = [str(file) for file in group.files if str(file) in log.file]
    return names or [log.file]


def _no_steps(log: Log) -> str:
    """The reason why a log gives no training step."""
    if log.served:
        return "results of a server, no training"
    problem = _ending(log)
    return f"no training step: {problem}" if problem else "no training step of any known framework"


def _ending(log: Log) -> str | None:
    """The problem that ended the job of a log."""
    fatal = fatal_problem(log, log.problems, log.planned_steps, updates(log)[2])
    if fatal is None or fatal.kind in NOT_ENDED or kind_of(fatal.kind).role not in _EVIDENCE:
        return None
    return f"{fatal.kind}: {fatal.detail}"


def reading_of(log: Log, given: Setting) -> Reading:
    """What one log says; ``given`` completes what it states."""
    setting = setting_of_log(log, given)
    rows = completed_rows(log, setting)
    pace, parts = _paces(log, rows)
    step_s = _step_time(log, rows, pace)
    seconds = rows.step_time_s * rows.interval
    usual = (step_s or 0.0) * rows.interval
    checkpoint_s = 0.0
    for number, work in log.other_work.items():
        if CHECKPOINT in work:
            excess = (seconds - usual)[rows.step == number]
            checkpoint_s += float(np.nansum(np.maximum(excess, 0.0)))
    by_rate = 1 / rows.tokens_per_s_per_gpu
    seconds = np.where(np.isnan(seconds), by_rate / (pace or 1.0) * usual, seconds)
    seconds = np.where(np.isnan(seconds) | rows.other_work, usual, seconds)
    restart_s = 0.0
    saves = [0, 0]
    for pause in log.pauses:
        if pause.work == RESTART:
            restart_s += pause.seconds
        elif CHECKPOINT in pause.work:
            unknown = not np.isfinite(pause.seconds)
            saves[unknown] += 1
            checkpoint_s += 0.0 if unknown else pause.seconds
    again = int(log.steps.column("interval").sum() - rows.interval.sum())
    known = log.planned_steps is not None or log.ended or log.unfinished
    names = ("framework_version", "mbs", *DEGREES, "num_layers", "hidden_size")
    facts = {name: getattr(log.facts, name) for name in names}
    options = log.facts.options or {}
    used = sorted((name, options[name]) for name in log.facts.used)
    return Reading(
        log=log.file,
        framework=log.framework,
        setting=setting,
        facts={**facts, "options": tuple(used), "average": log.only_average},
        step=rows.step,
        seconds=seconds * _not_printed(rows),
        step_time_s=step_s,
        pace=pace,
        parts=parts,
        repeated_s=again * (step_s or 0.0),
        checkpoint_s=checkpoint_s,
        restart_s=restart_s,
        restarts=max(log.segments - 1, 0),
        saves=(saves[0], saves[1]),
        saved=tuple(each.after for each in log.pauses if each.work == SAVED),
        begun=tuple(each.after for each in log.pauses if each.work == CHECKPOINT),
        planned=log.planned_steps,
        complete=log.complete(log.planned_steps) if known else None,
        problem=_ending(log),
        began=log.began,
        printed=crc32(b"".join(column.tobytes() for column in log.steps.columns(*PRINTED))),
        name=without_ids(Path(log.file.partition(",")[0]).name.partition(".")[0]),
    )


def _paces(log: Log, rows: CompletedRows) -> tuple[float | None, tuple[Part, ...]]:
    """Median step time after the warm-up, or the reciprocal of the rate of a log without
    times, of the whole job and of its parts; None without either, and of two jobs.
    """
    count = len(rows.step)
    inside = rows.measured(np.arange(count) >= warmup_rows(count))
    times = inside.step_time_s
    if np.isnan(times).all():
        times = 1 / inside.tokens_per_s_per_gpu
    known = ~np.isnan(times)
    times, place = times[known], np.searchsorted(rows.step, inside.step[known])
    if not len(times) or any(each.kind in NO_SPEED for each in log.problems):
        return None, ()
    if log.whole_seconds:
        mean = float(np.mean(times))
        return mean, (Part(0, count, mean, _error(times)),)
    cuts = [0, *_cuts(times, 0), len(times)]
    ends = [0, *place[cuts[1:-1]].tolist(), count]
    parts = []
    for at, (begin, end) in enumerate(itertools.pairwise(cuts)):
        middle = float(np.median(times[begin:end]))
        parts.append(Part(ends[at], ends[at + 1], middle, _error(times[begin:end])))
    return float(np.median(times)), tuple(parts)


def _cuts(times: Floats, offset: int) -> Iterator[int]:
    """The places at which the level of ``times`` changes by more than chance and by
    enough to matter; by ranks, so that no odd step makes one.
    """
    place = np.arange(FEWEST_ROWS, len(times) - FEWEST_ROWS + 1)
    if not len(place):
        return
    scores = np.abs(ranks(times).cumsum()[place - 1]) / np.sqrt(place * (len(times) - place))
    cut = int(place[np.argmax(scores)])
    before, after = times[:cut], times[cut:]
    shift = abs(float(np.log(np.median(after) / np.median(before))))
    if shift > LEAST and shift > CERTAIN * np.hypot(_error(before), _error(after)):
        yield from _cuts(before, offset)
        yield offset + cut
        yield from _cuts(after, offset + cut)


def _error(times: Floats) -> float:
    """Relative standard error of the median."""
    interval = confidence_interval(times)
    if interval is None:
        return 0.0
    return (interval.high - interval.low) / (2 * NORMAL_95 * float(np.median(times)))


def _step_time(log: Log, rows: CompletedRows, pace: float | None) -> float | None:
    """Median step time, by the dates of the lines in a log without times."""
    if not np.isnan(rows.step_time_s).all():
        return pace
    return float(np.median(np.mean([*log.dated_s.values()], axis=1))) if log.dated_s else None


def _not_printed(rows: CompletedRows) -> float:
    """Factor by which there are more steps than the rows stand for, because a program
    prints every tenth.
    """
    if len(rows.step) < 2 or np.median(np.diff(rows.step)) > MOST_BETWEEN:
        return 1.0  # the number is a count of tokens
    return max(float(np.ptp(rows.step) + 1) / float(rows.interval.sum()), 1.0)
