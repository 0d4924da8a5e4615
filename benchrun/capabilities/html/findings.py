"""Findings over all runs of a report: slow nodes, failures, changes of the step time.

Like is compared with like: what is said of points, frameworks and changes leaves out
runs on a node that is slow, and of a point those with another driver or other versions.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from itertools import pairwise
from statistics import median

from benchrun.capabilities.explain.model import Explanation
from benchrun.capabilities.history.series import (
    CLOCK,
    HistoryRun,
    PointHistory,
    Shift,
    changed_between,
    history_of,
    shift,
)
from benchrun.capabilities.history.text import changed_text
from benchrun.jobs.endings import AGAIN, Ending
from benchrun.judge.difference import NOTICEABLE
from benchrun.judge.verdict import RunResult
from benchrun.logs.kinds import blaming_node, kind_of, short_name
from benchrun.measure.changes import changes
from benchrun.measure.statistics import Interval, confidence_interval
from benchrun.show.frameworks import alike, left_out
from benchrun.show.table import Table
from benchrun.site.nodes import folded

from .run import LONGEST, hosts_of

BLAMED = ("slow_rank", "slow_node", "data", "host", "clocks", "power")
"""Causes that blame the node that they name."""


@dataclass(frozen=True)
class NodeSpeed:
    """The runs of a node beside those of their points on others."""

    host: str
    longer: tuple[float, ...]
    """By how many percent the step of each is longer."""
    since: datetime | None
    """The first of them, if those before were faster."""

    @cached_property
    def interval(self) -> Interval | None:
        """The interval of their median."""
        return confidence_interval(self.longer)

    @property
    def percent(self) -> float:
        """Their median."""
        return median(self.longer)

    @property
    def slow(self) -> bool:
        """Whether they are longer, and noticeably."""
        interval = self.interval
        return interval is not None and interval.low > 0 and self.percent >= 100 * NOTICEABLE


Slow = Mapping[str, NodeSpeed]


@dataclass(frozen=True)
class Changed:
    """The step time of a point before and after it changed."""

    point: PointHistory
    before: Sequence[HistoryRun]
    after: Sequence[HistoryRun]
    size: Shift
    with_it: str
    """What changed with it; empty if nothing did that is recorded."""
    shared: str
    """That without the clock, which is another one in each point."""
    gpu_hours: float
    """GPU-hours that the runs after it took longer; below 0 where they became faster."""


@dataclass(frozen=True)
class Failure:
    """Runs that failed in the same way, the newest last."""

    name: str
    runs: Sequence[RunResult]
    blamed: Sequence[str]
    """Nodes that are at fault; empty if none is named."""

    @property
    def advice(self) -> str:
        """What to do about it."""
        if self.blamed:
            return f"run without {folded(self.blamed)} (launch --exclude), then test it: benchrun nodes"
        kind = kind_of(self.name)
        ending = kind.ending or self.runs[-1].ending or "completed"
        again = AGAIN[Ending(ending)]
        if again == "never":
            return "change the run: the same one ends so again"
        if again == "done":
            return "look at its log: its numbers are not valid"
        return "launch it again (--retries), else look at its log"


@dataclass(frozen=True)
class Findings:
    """Findings over all runs of a report."""

    results: Sequence[RunResult]
    blaming: Mapping[str, Sequence[str]]
    """Run -> the nodes that it blames."""
    speeds: Slow
    """Each node that can be compared with others."""
    slow: Slow
    healthy: Sequence[RunResult]
    """Runs on no node that was slow then."""
    alike: Sequence[RunResult]
    """Those of them with the software of their point."""
    failures: Sequence[Failure]
    changes: Sequence[Changed]

    @property
    def on_slow(self) -> str:
        """Sentence on the runs that are left out for their node."""
        number = len(self.results) - len(self.healthy)
        if not number:
            return ""
        return f" Left out: {number} run{'s' * (number > 1)} on {folded(sorted(self.slow))}."

    @property
    def left_out(self) -> str:
        """Sentence on all runs that are left out."""
        return f"{self.on_slow}{left_out(self.healthy)}"


def findings(
    results: Sequence[RunResult],
    explained: Sequence[Explanation | None] = (),
    *,
    history: bool = True,
) -> Findings:
    """What ``results`` show; without ``history`` no changes."""
    blaming = {}
    known = explained or [None] * len(results)
    for run, each in zip(results, known, strict=True):
        blaming[run.run_id] = blamed_by(run, each)
    speeds = node_speeds(results)
    slow = {host: speed for host, speed in speeds.items() if speed.slow}
    healthy = _healthy(results, slow)
    found: list[Changed] = []
    if history:
        found = changes_of(history_of(healthy).series, healthy)
    failed = _failures(results, blaming)
    same = alike(healthy)
    return Findings(results, blaming, speeds, slow, healthy, same, failed, found)


def blamed_by(run: RunResult, explained: Explanation | None) -> list[str]:
    """The nodes of ``run`` that its explanation or its log holds to be at fault."""
    named = set()
    if explained:
        for cause in explained.causes:
            if cause.kind == "fault" and cause.host and cause.cause in BLAMED:
                named.add(short_name(cause.host))
    hosts = hosts_of(run)
    for problem in blaming_node(run.metrics.problems if run.metrics else ()):
        if problem.host:
            named.add(short_name(problem.host))
        elif len(hosts) == 1:
            named.add(short_name(hosts[0]))
    return [host for host in hosts if short_name(host) in named]


def node_speeds(results: Sequence[RunResult]) -> dict[str, NodeSpeed]:
    """How much longer the runs of each node take than those of their points on others.

    A node that is slow makes the other nodes of its runs look slow: the slowest is found
    first, and its runs count for no other.
    """
    found: dict[str, NodeSpeed] = {}
    while True:
        healthy = _healthy(results, found)
        speeds = {}
        for host, longer in _longer(history_of(healthy).series).items():
            if host not in found:
                speeds[host] = _newest(host, sorted(longer))
        slow = [speed for speed in speeds.values() if speed.slow]
        if not slow:
            return {**speeds, **found}
        worst = max(slow, key=lambda speed: speed.percent)
        for speed in slow:
            if speed.longer == worst.longer:
                found[speed.host] = speed


def _longer(series: Sequence[PointHistory]) -> dict[str, list[tuple[datetime, float]]]:
    """For each node the launch of its runs, and by how many percent they are longer than
    those on other nodes, between the same changes and with the same driver.
    """
    found: dict[str, list[tuple[datetime, float]]] = {}
    for point in series:
        alike: dict[object, list[HistoryRun]] = {}
        for run, period in zip(point.runs, point.period_of, strict=True):
            alike.setdefault((period, run.facts["driver"]), []).append(run)
        for runs in alike.values():
            for run in runs:
                for host in run.facts["node"]:
                    others = [other for other in runs if host not in other.facts["node"]]
                    if others:
                        usual = median(other.step_time_s for other in others)
                        percent = 100 * (run.step_time_s / usual - 1)
                        found.setdefault(host, []).append((run.launched, percent))
    return found


def _healthy(results: Sequence[RunResult], slow: Slow) -> list[RunResult]:
    """The runs on no node that was slow then."""
    return [run for run in results if not _held_up(hosts_of(run), run.launched, slow)]


def _held_up(hosts: Iterable[str], launched: datetime | None, slow: Slow) -> bool:
    """Whether a node of a run was slow then."""
    for host in hosts:
        if host in slow:
            since = slow[host].since
            if since is None or launched is None or launched >= since:
                return True
    return False


def _newest(host: str, longer: Sequence[tuple[datetime, float]]) -> NodeSpeed:
    """The runs of a node since the last change that is noticeable."""
    values = tuple(percent for _, percent in longer)
    for cut in reversed(changes(values)):
        before, after = values[: cut.place], values[cut.place :]
        if abs(median(after) - median(before)) >= 100 * NOTICEABLE:
            return NodeSpeed(host, after, longer[cut.place][0])
    return NodeSpeed(host, values, None)


def nodes_table(found: Findings) -> Table:
    """How much slower the runs of each node are than those of their points on others,
    the slow ones first; since when; how many failed, and how many blame it.
    """
    runs = Counter(host for run in found.results for host in hosts_of(run))
    failed: Counter[str] = Counter()
    for failure in found.failures:
        for result in failure.runs:
            failed.update(hosts_of(result))
    blamed = Counter(host for hosts in found.blaming.values() for host in hosts)
    rows = []
    for host, number in runs.items():
        speed = found.speeds.get(host)
        cells: tuple[object, ...] = (0, None, "", None)
        slow, percent = False, 0.0
        if speed:
            interval = speed.interval
            span = f"{interval.low:+.1f} to {interval.high:+.1f}" if interval else ""
            since = f"{speed.since:%Y-%m-%d}" if speed.since else None
            cells = (len(speed.longer), f"{speed.percent:+.1f}", span, since)
            slow, percent = speed.slow, speed.percent
        order = (slow, slow * percent, blamed[host], failed[host], percent)
        rows.append((order, (host, number, *cells, failed[host], blamed[host])))
    rows.sort(key=lambda row: row[0], reverse=True)
    titles = ("node", "runs", "compared", "step longer by %", "interval %", "since")
    return Table((*titles, "failed runs", "runs that blame it"), [cells for _, cells in rows])


def _failures(results: Sequence[RunResult], blaming: Mapping[str, Sequence[str]]) -> list[Failure]:
    """The failed runs by what went wrong, the costliest first, then the most frequent."""
    by_name: dict[str, list[RunResult]] = {}
    for run in sorted(results, key=lambda run: str(run.launched)):
        if name := _failure_of(run):
            by_name.setdefault(name, []).append(run)
    found = []
    for name, runs in by_name.items():
        hosts = [host for run in runs for host in blaming[run.run_id]]
        found.append(Failure(name, runs, sorted(set(hosts))))
    return sorted(found, key=lambda each: (-sum(map(gpu_hours_of, each.runs)), -len(each.runs)))


def _failure_of(run: RunResult) -> str | None:
    """What went wrong in a run; None if nothing did, or a person ended it."""
    failed = run.ending not in (None, "completed", "cancelled")
    if not failed and run.judgement != "invalid_run":
        return None
    if run.metrics and run.metrics.fatal:
        return run.metrics.fatal.kind
    if failed:
        return run.ending
    return "no valid number"


def failures_table(found: Findings) -> Table:
    """What went wrong, how often, where, when last, and what to do."""
    rows = []
    for each in found.failures:
        newest = each.runs[-1]
        seen = f"{newest.launched:%Y-%m-%d}" if newest.launched else None
        reason = newest.verdict.reason if newest.verdict else ""
        said = reason[:LONGEST] + "..." * (len(reason) > LONGEST)
        nodes = each.blamed or sorted({host for run in each.runs for host in hosts_of(run)})
        row = (each.name.replace("_", " "), len(each.runs), folded(nodes), seen, said, each.advice)
        rows.append(row)
    titles = ("failure", "runs", "nodes", "last seen", "the last one says", "what to do")
    return Table(titles, rows)


def gpu_hours_of(run: RunResult) -> float:
    """The GPU-hours of the steps in the log of ``run``."""
    metrics = run.metrics
    if metrics is None or metrics.step_time_s is None:
        return 0.0
    return metrics.num_steps * metrics.step_time_s.median * run.spec.num_gpus / 3600


def hours_longer(runs: Sequence[RunResult], percent: float) -> float:
    """The GPU-hours that ``runs`` took because their steps are longer by ``percent``."""
    return sum(map(gpu_hours_of, runs)) * percent / (100 + percent)


def changes_of(series: Sequence[PointHistory], results: Sequence[RunResult]) -> list[Changed]:
    """The changes of each point, the costliest first and the faster ones last; of a point
    whose runs are too few to show one, its newest day where it differs from all days before.
    """
    runs = {run.run_id: run for run in results}
    found = []
    for point in series:
        for before, after in pairwise(_periods(point)):
            size = shift(before, after)
            if size.low < 0 < size.high and not point.changes:
                continue
            facts = list(changed_between(before, after))
            with_it = "; ".join(map(changed_text, facts))
            shared = "; ".join(changed_text(one) for one in facts if one.column != CLOCK)
            hours = hours_longer([runs[run.run_id] for run in after], size.percent)
            found.append(Changed(point, before, after, size, with_it, shared, hours))
    return sorted(found, key=lambda each: -each.gpu_hours)


def changes_table(found: Sequence[Changed]) -> Table:
    """One row per change."""
    rows = []
    for each in found:
        size = each.size
        sizes = (f"{size.percent:+.1f}", f"{size.low:+.1f} to {size.high:+.1f}")
        known = each.with_it or "nothing that is recorded"
        sides = (_days(each.before), len(each.before), _days(each.after), len(each.after))
        rows.append((each.point.name, *sides, *sizes, known))
    titles = ("point", "before", "runs", "after", "runs", "step longer by %", "interval %")
    return Table((*titles, "changed with it"), rows)


def _periods(point: PointHistory) -> list[list[HistoryRun]]:
    """The runs between two changes; without a change the newest day apart."""
    newest = point.runs[-1].launched.date()
    numbers: Sequence[int] = [run.launched.date() == newest for run in point.runs]
    if point.changes:
        numbers = point.period_of
    parts: dict[int, list[HistoryRun]] = {}
    for number, run in zip(numbers, point.runs, strict=True):
        parts.setdefault(number, []).append(run)
    return list(parts.values())


def _days(runs: Sequence[HistoryRun]) -> str:
    """The first and the last day."""
    days = dict.fromkeys(f"{run.launched:%Y-%m-%d}" for run in (runs[0], runs[-1]))
    return " to ".join(days)
