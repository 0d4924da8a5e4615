"""What to do after a report: at most five sentences, the costliest first, each with its
evidence on the page and the command to go on with.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchrun.show.readable import named_points
from benchrun.show.runs import ratio_of
from benchrun.site.nodes import folded

from .findings import Changed, Findings, gpu_hours_of, hours_longer
from .parts import escape
from .run import hosts_of

MOST = 5
"""Entries that are shown."""


@dataclass(frozen=True)
class Entry:
    """One thing to do."""

    text: str
    """What is wrong and where, and what to do, in one sentence without its end."""
    evidence: str
    """The section that shows it."""
    command: str
    gpu_hours: float
    """What it cost in these runs, by the steps that they made."""


def todo(found: Findings) -> list[Entry]:
    """Everything to do, the costliest first."""
    entries = [*_slow_nodes(found), *_failures(found), *_changes(found), *_slow_points(found)]
    return sorted(entries, key=lambda entry: -entry.gpu_hours)


def todo_html(entries: Sequence[Entry]) -> Iterator[str]:
    """The list, or a sentence where nothing needs doing."""
    yield '<section id="todo"><h2>What to do</h2>'
    if not entries:
        yield (
            "<p>Nothing needs doing: no node is slow, no run failed, no point became slower or is "
            "slower than its reference.</p></section>"
        )
        return
    yield "<ol>"
    for entry in entries[:MOST]:
        link = f'<a href="#{entry.evidence}">{entry.evidence}</a>'
        cost = f"it cost {entry.gpu_hours:.2g} GPU-hours"
        if not entry.gpu_hours:
            cost = "no log says what it cost"
        yield f"<li>{escape(entry.text)}; {cost} ({link}). <code>{escape(entry.command)}</code>"
    yield "</ol>"
    if len(entries) > MOST:
        yield f"<p>{len(entries) - MOST} more, which cost less, stand below.</p>"
    yield "</section>"


def _slow_nodes(found: Findings) -> Iterator[Entry]:
    healthy = {run.run_id for run in found.healthy}
    for host, speed in found.slow.items():
        runs = []
        for run in found.results:
            if run.run_id not in healthy and host in hosts_of(run):
                runs.append(run)
        since = f" since {speed.since:%Y-%m-%d}" if speed.since else ""
        text = (
            f"Run without {host} and test it: steps on it are {speed.percent:.1f} % longer{since}"
        )
        cluster = runs[-1].spec.cluster.name
        yield Entry(text, "nodes", f"benchrun nodes {cluster}", hours_longer(runs, speed.percent))


def _failures(found: Findings) -> Iterator[Entry]:
    for each in found.failures:
        newest = each.runs[-1]
        number = f"{len(each.runs)} of {len(found.results)} runs"
        text = f"Look at {each.name.replace('_', ' ')}, by which {number} failed: {each.advice}"
        command = f"benchrun status {newest.run_id}"
        if each.blamed:
            where = folded(each.blamed)
            text = f"Run without {where} and test it: {number} failed by {each.name}"
            command = f"benchrun nodes {newest.spec.cluster.name}"
        yield Entry(text, "failures", command, sum(map(gpu_hours_of, each.runs)))


def _slower(found: Findings) -> dict[str, list[Changed]]:
    """The newest change of each point, if it made it slower, by what changed with it."""
    groups: dict[str, list[Changed]] = {}
    for each in found.changes:
        if each.after[-1] is each.point.runs[-1] and each.size.percent > 0:
            groups.setdefault(each.shared or each.point.name, []).append(each)
    return groups


def _changes(found: Findings) -> Iterator[Entry]:
    for group in _slower(found).values():
        largest = max(group, key=lambda each: each.size.percent)
        name = largest.point.name
        if len(group) > 1:
            name = f"{len(group)} points"
        size = f"up to {largest.size.percent:.1f} %"
        what = largest.with_it or "nothing that is recorded"
        text = f"Look at why {name} became slower, by {size}, with: {what}"
        hours = sum(each.gpu_hours for each in group)
        command = f"benchrun diff {largest.before[-1].run_id} {largest.after[-1].run_id}"
        yield Entry(text, "changes", command, hours)


def _slow_points(found: Findings) -> Iterator[Entry]:
    """Points whose newest run is slow for another reason than those above."""
    known = set()
    for group in _slower(found).values():
        for each in group:
            known |= {run.run_id for run in each.after}
    for name, repeats in named_points(found.alike):
        slow = [run for run in repeats if "slow" in run.judgement]
        newest = max(repeats, key=lambda run: str(run.launched))
        if newest not in slow or newest.run_id in known:
            continue
        ratio = ratio_of(slow)
        if ratio is None:
            continue
        text = (
            f"Explain why {name} runs at {ratio.value:.2f} of the speed of its reference "
            f"({ratio.against})"
        )
        hours = sum(map(gpu_hours_of, slow)) * max(1 - ratio.value, 0)
        yield Entry(text, "runs", f"benchrun explain {newest.run_id}", hours)
