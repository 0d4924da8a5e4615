"""An audit for readers: a terminal, a page, JUnit."""

from collections.abc import Iterator

from benchrun import extensions
from benchrun.show.junit import Case, suite
from benchrun.show.section import Section
from benchrun.show.table import Table, plain
from benchrun.site.nodes import folded

from .model import Audit, Job, Node, Range

MOST_JOBS = 20
"""Jobs that a terminal lists: those that lost most."""
MOST_NOT_READ = 10
TITLE = "benchrun audit"
MOST_NODES = 10
"""Nodes that a terminal lists: the slowest, and all that are not as others."""


def audit_text(audit: Audit) -> str:
    """The audit for a terminal."""
    parts = [_first(audit) + "\n"]
    for section in _sections(audit, MOST_JOBS):
        tables = "\n".join(plain(table) for table in section.tables)
        parts.append(f"{section.title}: {section.text}\n{tables}")
    return "\n".join(parts)


def audit_page(audit: Audit) -> str:
    """The audit as one HTML file."""
    draw = extensions.capability("html.parts", "section_html")
    parts = [f"<p>{_first(audit)}</p>"]
    for section in _sections(audit, len(audit.jobs)):
        parts += draw(section)
    text: str = extensions.capability("html.parts", "document")(TITLE, parts)
    return text


def audit_junit(audit: Audit) -> str:
    """A test case a node, a failure for an accused one; what was not read is skipped."""
    cases = []
    for node in audit.nodes:
        text = _sentence(node)
        kind = "failure" if node.accused else None
        cases.append(Case("nodes", node.node, kind, text, text))
    for each in audit.not_read:
        cases.append(Case("logs", each.log, "skipped", each.why, each.why))
    return suite(cases)


def _first(audit: Audit) -> str:
    """The answer in one line."""
    perhaps = [node.node for node in audit.nodes if node.verdict == "perhaps slow"]
    doubts = [f"perhaps {name}" for name in perhaps]
    doubts += [f"one of {', '.join(group)}" for group in audit.undecided]
    slow = len(_unexplained(audit))
    total = audit.total
    if audit.accused:
        answer = f"SLOW NODES {', '.join(node.node for node in audit.accused)}"
        answer = "; ".join([answer, *doubts])
    elif doubts:
        answer = f"UNDECIDED, slow is {'; '.join(doubts)}"
    elif slow:
        jobs = "1 job is" if slow == 1 else f"{slow} jobs are"
        answer = f"no node is accused, but {jobs} slower and no cause was found"
    elif not total.compared:
        answer = "nothing to compare, no two jobs are of one kind"
    else:
        answer = "no node is slower than chance explains"
    compared = f"{total.compared} of {total.jobs} jobs compared with others of their kind"
    return f"{answer}: {compared}, {total.gpu_hours:,.0f} GPU-hours"


def _unexplained(audit: Audit) -> list[Job]:
    """Jobs that are slower without a cause, the slowest first."""
    found = [job for job in audit.jobs if job.slower_by]
    return sorted(found, key=lambda job: -(job.slower_by or 0.0))


def _sentence(node: Node) -> str:
    if node.slower_by is None:
        return "no job of it can be compared"
    text = f"{_percent(node.slower_by)} slower over {node.jobs} jobs"
    if node.since:
        text += f" since {node.since}"
    if node.until:
        text += f" until {node.until}"
    return text


def _percent(value: Range) -> str:
    low, middle, high = (f"{100 * each:.1f}" for each in (value.low, value.median, value.high))
    return f"{middle} % ({low} to {high} %)"


def _sections(audit: Audit, most: int) -> Iterator[Section]:
    yield Section("lost", "Lost", "GPU-hours, with intervals of 90 %", tables=(_lost(audit),))
    shown = [node for node in audit.nodes if node.verdict != "not compared"]
    if shown:
        slowest = shown[: max(MOST_NODES, sum(node.verdict != "as others" for node in shown))]
        listed = slowest if most < len(audit.jobs) else shown
        text = "a job is as slow as the slowest of its nodes"
        if len(listed) < len(shown):
            text += f"; the {len(listed)} slowest of {len(shown)} nodes"
        yield Section("nodes", "Nodes", text, tables=(_nodes(listed),))
    if audit.slow_days:
        days = [[day, _percent(slow)] for day, slow in audit.slow_days.items()]
        table = Table(("day", "slower by"), days)
        yield Section("days", "Slow days", "all jobs of the cluster", tables=(table,))
    if audit.undecided:
        pairs = Table(("one of",), [[" or ".join(pair)] for pair in audit.undecided])
        text = "one of them is slow, and their jobs do not tell which"
        yield Section("undecided", "Undecided", text, tables=(pairs,))
    losing = sorted(filter(_loss, audit.jobs), key=lambda job: -_loss(job))
    slow = _unexplained(audit)
    if slow:
        text = f"{len(slow)} jobs are slower than others of their kind, beyond noise"
        yield Section("slower", "Slower, no cause found", text, tables=(_jobs(slow[:most]),))
    if losing:
        jobs = losing[:most]
        text = f"{len(losing)} lost GPU-hours"
        if len(jobs) < len(losing):
            text += f", the {len(jobs)} that lost most"
        yield Section("jobs", "Jobs", text, tables=(_jobs(jobs),))
    if audit.not_read:
        rows = [[each.log, each.why] for each in audit.not_read]
        text = f"{len(rows)} files and lines gave no job"
        if most < len(audit.jobs):
            rows = rows[:MOST_NOT_READ]
        yield Section("not-read", "Not read", text, tables=(Table(("file", "why"), rows),))


def _loss(job: Job) -> float:
    lost = job.lost_gpu_hours
    return lost.fault + lost.day + lost.failure + lost.choice


def _lost(audit: Audit) -> Table:
    total = audit.total
    rows = []
    names = {"fault": "slow nodes", "day": "slow days"}
    names |= {"failure_range": "failures", "choice": "choices"}
    for name, words in names.items():
        row: list[object] = [words, *_cells(getattr(total.lost_gpu_hours, name))]
        if total.lost_money:
            row += _cells(getattr(total.lost_money, name))
        rows.append(row)
    titles = ["lost to", "GPU-hours", "from", "to"]
    if total.lost_money:
        titles += ["price", "from", "to"]
    return Table(titles, rows)


def _cells(value: Range | float) -> list[object]:
    if isinstance(value, Range):
        return [round(value.median, 1), round(value.low, 1), round(value.high, 1)]
    return [round(value, 1), None, None]


def _nodes(nodes: list[Node]) -> Table:
    rows = []
    for node in nodes:
        assert node.slower_by is not None
        dates = [node.since, node.until]
        rows.append([node.node, node.jobs, _percent(node.slower_by), node.verdict, *dates])
    return Table(("node", "jobs", "slower by", "verdict", "since", "until"), rows)


def _jobs(jobs: list[Job]) -> Table:
    rows = []
    for job in jobs:
        expected = job.expected_s.median if job.expected_s else None
        where = job.job_id or job.log
        gpus = f"{job.num_gpus} GPUs" if job.num_gpus else None
        what = ", ".join(filter(None, (job.model, job.precision, gpus)))
        times = [job.step_time_s, expected]
        nodes = folded(job.nodes)
        to = "slower" if job.slower_by else job.cause
        lost = round(_loss(job), 2)
        rows.append([where, what, nodes, job.state, *times, lost, to, job.evidence])
    titles = "job", "work", "nodes", "state", "step s", "expected s", "lost GPU-hours", "to"
    return Table((*titles, "evidence"), rows)
