"""The verdict on a cluster for a reader: what is planned, and every criterion."""

from collections.abc import Iterator, Sequence
from typing import Any

from benchrun.capabilities.studies.result import StudyResult
from benchrun.capabilities.studies.view import planned_line
from benchrun.show.section import Section
from benchrun.show.table import LINE, Table, fitted

from .criteria import Acceptance, Criterion
from .pack import Reason

ANSWERS = {True: "passed", False: "FAILED", None: "no answer"}


def headline(acceptance: Acceptance) -> str:
    """The verdict in one line."""
    answers = [each.passed for each in acceptance.criteria]
    details = []
    if False in answers:
        details.append(f"{answers.count(False)} failed")
    if None in answers:
        details.append(f"{answers.count(None)} without an answer")
    verdict = acceptance.verdict.replace("_", " ").upper()
    return f"{verdict}: {len(answers)} criteria, {', '.join(details) or 'all passed'}"


def criteria_table(acceptance: Acceptance) -> Table:
    """One row for each criterion, the failed ones and those without an answer first."""
    order = {False: 0, None: 1, True: 2}
    names = {0: "check of nodes"}
    for point in acceptance.points:
        names[point.point] = point.name
    rows = []
    for each in sorted(acceptance.criteria, key=lambda each: order[each.passed]):
        rows.append(_row(each, names[each.point]))
    return Table(("point", "criterion", "limit", "measured", "unit", "result", "note"), rows)


def _row(each: Criterion, name: str) -> list[Any]:
    measured = None
    if each.measured is not None:
        measured = _number(float(each.measured))
    values = (_number(each.threshold), measured)
    return [
        f"{each.point}: {name}",
        each.criterion,
        *values,
        each.unit,
        ANSWERS[each.passed],
        each.reason,
    ]


def _number(value: float) -> float | int:
    if value != int(value):
        return value
    return int(value)


def nodes_table(acceptance: Acceptance, *answers: bool | None) -> Table:
    """One row for each node about which the check has one of these answers."""
    rows = []
    for answer in answers:
        for host, (own, why) in acceptance.nodes.items():
            if own is answer:
                rows.append([host, ANSWERS[own], why])
    return Table(("node", "result", "note"), rows)


def plan_points_table(acceptance: Acceptance) -> Table:
    """One row for each point: how often it was measured, and its verdict."""
    rows = []
    for each in acceptance.points:
        measured = f"{len(each.runs)} of {each.repeats}"
        rows.append([each.point, each.name, each.num_nodes, measured, each.verdict])
    return Table(("point", "workload", "nodes", "measured", "verdict"), rows, missing="-")


def plan_runs_table(acceptance: Acceptance) -> Table:
    """The id of each run with its point."""
    rows = []
    for each in acceptance.points:
        for run in each.runs:
            rows.append([each.point, run, "measured"])
        for run in each.other_runs:
            rows.append([each.point, run, "no numbers"])
    return Table(("point", "run", ""), rows)


def planned_page(acceptance: Acceptance, study: StudyResult) -> str:
    """The points that a plan will launch, with their GPU-hours and limits."""
    rows = []
    for point, each in zip(acceptance.points, study.points, strict=True):
        assert each.hours is not None
        steps = each.hours.steps
        if steps is not None:
            steps *= study.repeats
        limit = each.hours.limit * study.repeats
        rows.append([point.point, point.name, point.num_nodes, study.repeats, limit, steps])
    titles = ("point", "workload", "nodes", "repeats", "gpu_hours_limit", "gpu_hours_steps")
    tables = (Table(titles, rows, missing="-"), _limits(acceptance))
    return "\n".join(
        [
            f"{acceptance.plan}: {acceptance.description}",
            "",
            *(fitted(table, LINE) for table in tables),
            planned_line(study),
            "",
        ]
    )


def _limits(acceptance: Acceptance) -> Table:
    """One row for each criterion, with the points that have it."""
    points: dict[tuple[str, float, str], list[int]] = {}
    for each in acceptance.criteria:
        points.setdefault((each.criterion, each.threshold, each.unit), []).append(each.point)
    every = len(acceptance.points)
    rows = []
    for (name, limit, unit), numbers in points.items():
        which = "all"
        if len(numbers) != every:
            which = " ".join(map(str, numbers))
        rows.append((name, _number(limit), unit, which))
    return Table(("criterion", "limit", "unit", "points"), rows)


def acceptance_page(acceptance: Acceptance) -> str:
    """The verdict, every criterion, and the runs, as text."""
    tables = (
        criteria_table(acceptance),
        nodes_table(acceptance, False, None),
        plan_points_table(acceptance),
        plan_runs_table(acceptance),
    )
    text = "\n".join(fitted(table, LINE) for table in tables if table.rows)
    return printable(
        f"{headline(acceptance)}\n{acceptance.plan}: {acceptance.description}\n\n{text}"
    )


def reason_lines(kind: str, reasons: Sequence[Reason]) -> Iterator[str]:
    """One line for each reason."""
    for reason in reasons:
        parts = (kind, reason.kind.replace("_", " "), reason.file, reason.detail)
        yield printable(": ".join(filter(None, parts)))


def printable(text: str) -> str:
    """Text of a pack that somebody else wrote, without control characters of a
    terminal.
    """
    return "".join(letter if letter.isprintable() or letter == "\n" else "?" for letter in text)


def leads(acceptance: Acceptance, nodes: str, digest: str) -> tuple[Section, ...]:
    """The first parts of the HTML report. ``digest``: sha256 of the plan."""
    verdicts = (criteria_table(acceptance), nodes_table(acceptance, False, None, True))
    return (
        Section(
            "verdict",
            "Verdict",
            f"{headline(acceptance)}. {acceptance.description}",
            tables=tuple(table for table in verdicts if table.rows),
        ),
        Section(
            "planned",
            "What was run",
            f"Each point of the plan, with its runs that gave numbers, on {nodes or 'unknown nodes'}. "
            f"sha256 of plan.yaml: {digest}",
            tables=(plan_points_table(acceptance),),
        ),
    )
