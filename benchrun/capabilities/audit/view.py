"""An audit for readers: a terminal, a page, JUnit."""

from collections.abc import Iterator

from benchrun import extensions
from benchrun.show.junit import Case, suite
from benchrun.show.section import Section
from benchrun.show.table import Table, plain

from .model import Audit, Job, Node, Range

MOST_JOBS = 20
"""Jobs that a terminal lists: those that lost most."""
MOST_NOT_READ = 10
TITLE = "benchrun audit"
SUSPECT = 0.02
"""Least relative slowness, at the lower end of its interval, of a node that is named without
being accused.
"""


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
    names = ", ".join(node.node for node in audit.accused)
    slow = f"SLOW NODES {names}" if names else "no node is slower than chance explains"
    if suspects := ", ".join(node.node for node in _suspects(audit)):
        slow = f"SLOW NODES {names}; perhaps {suspects}" if names else f"PERHAPS SLOW {suspects}"
    total = audit.total
    return f"{slow}: {total.jobs} jobs, {total.gpu_hours:,.0f} GPU-hours"


def _suspects(audit: Audit) -> list[Node]:
    """Nodes that look slow, and whose jobs do not exclude chance."""
    found = []
    for node in audit.nodes:
        if not node.accused and node.slower_by and node.slower_by.low >= SUSPECT:
            found.append(node)
    return found


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
    if audit.accused:
        rows = []
        for node in audit.accused:
            assert node.slower_by is not None
            rows.append([node.node, _percent(node.slower_by), node.jobs, node.since, node.until])
        titles = ("node", "slower by", "jobs", "since", "until")
        text = "a job is as slow as the slowest of its nodes"
        yield Section("nodes", "Slow nodes", text, tables=(Table(titles, rows),))
    if suspects := _suspects(audit):
        rows = [
            [node.node, _percent(node.slower_by), node.jobs] for node in suspects if node.slower_by
        ]
        text = "they look slow, and their jobs do not exclude chance: benchrun nodes checks them"
        table = Table(("node", "slower by", "jobs"), rows)
        yield Section("suspects", "Perhaps slow", text, tables=(table,))
    if audit.slow_days:
        days = [[day, _percent(slow)] for day, slow in audit.slow_days.items()]
        table = Table(("day", "slower by"), days)
        yield Section("days", "Slow days", "all jobs of the cluster", tables=(table,))
    if audit.undecided:
        pairs = Table(("one of",), [[" or ".join(pair)] for pair in audit.undecided])
        text = "one of them is slow, and their jobs do not tell which"
        yield Section("undecided", "Undecided", text, tables=(pairs,))
    losing = sorted(filter(_loss, audit.jobs), key=lambda job: -_loss(job))
    if losing:
        shown = losing[:most]
        text = f"{len(losing)} lost GPU-hours"
        if len(shown) < len(losing):
            text += f", the {len(shown)} that lost most"
        yield Section("jobs", "Jobs", text, tables=(_jobs(shown),))
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


def _jobs(jobs: list[Job]) -> Table:
    rows = []
    for job in jobs:
        expected = job.expected_s.median if job.expected_s else None
        where = job.job_id or job.log
        what = f"{job.model or '?'}, {job.precision or '?'}, {job.num_gpus or '?'} GPUs"
        times = [job.step_time_s, expected]
        rows.append([where, what, job.state, *times, round(_loss(job), 2), job.cause, job.evidence])
    titles = ("job", "work", "state", "step s", "expected s", "lost GPU-hours", "to", "evidence")
    return Table(titles, rows)
