"""One run of a page: its row, and its section."""

from collections.abc import Iterator, Mapping
from math import log
from typing import Any

from benchrun.capabilities.explain.evidence import Evidence
from benchrun.capabilities.explain.explanation import explain
from benchrun.capabilities.explain.model import Explanation
from benchrun.capabilities.explain.usecase import evidence
from benchrun.errors import NoNumberError
from benchrun.judge.verdict import RunResult, SpeedRatio
from benchrun.rundir.artifacts import objects
from benchrun.runspec.spec import TrainingSpec
from benchrun.show.numbers import metrics_rows
from benchrun.show.readable import READ, served
from benchrun.show.repeats import metric_of
from benchrun.show.table import Table
from benchrun.show.terminal import basis_rows, spec_rows
from benchrun.site.nodes import folded

from .parts import escape, slots, table_html, verdict_html

SMALLEST_PART = 0.05
"""A smaller part of a step is left out where there are many runs."""
SPARE = (
    "",
    "other windows",
    "steadiness",
    "as printed",
    "energy",
    "launched",
    "precision",
    "speed",
    "nearest",
    "tokens/s/GPU",
    "TFLOPS/GPU",
    "workload",
)
"""Facts that are left out there: others say nearly the same."""
COMMIT = 12
"""Letters of a commit."""
RANGE = 2.0
"""Ratios from 1 / this to this are on the axis."""
WIDTH = 120
"""Width of the axis."""
LONGEST = 90
"""Letters of a reason in the table of all runs."""
TICKS = (0.5, 0.7, 1.0, 1.4, 2.0)


def evidence_of(run: RunResult) -> Evidence | None:
    """The input of an explanation of ``run``; None if it is no training, has no
    measured step, or gives no number.
    """
    measurement = run.measurement
    if measurement is None or measurement.metrics.step_time_s is None:
        return None
    if not isinstance(run.spec, TrainingSpec):
        return None
    try:
        return evidence(measurement.run, measurement=measurement)
    except NoNumberError:
        return None


def explanation_of(known: Evidence | None) -> Explanation | None:
    """What makes the step as long as it is; None without evidence."""
    if known is None:
        return None
    return explain(known)


def hosts_of(run: RunResult) -> list[str]:
    """The nodes of a run."""
    return [str(node.get("host")) for node in objects(run.environment.get("nodes"))]


def row(run: RunResult, name: str, number: int) -> list[str]:
    """The cells of a run in the table of all runs."""
    ratio = run.verdict.ratio if run.verdict else None
    launched = f"{run.launched:%Y-%m-%d}" if run.launched else ""
    cells = [f'<a href="#r{number}">{escape(name)}</a>', launched, verdict_html(run.judgement)]
    if ratio is None:
        why = run.verdict.reason if run.verdict else ""
        cells += ["", "", "", escape(why[:LONGEST] + "..." * (len(why) > LONGEST))]
    else:
        ends = f"{ratio.low:.3f} to {ratio.high:.3f}" if ratio.high else f"{ratio.low:.3f} or more"
        cells += [ratio_svg(ratio), f"{ratio.value:.3f}", ends, escape(ratio.against)]
    values: Mapping[str, Any] = run.numbers.metrics if run.numbers else {}
    for key in READ[:4]:
        cells.append(metric_of(key).text(values.get(key), ""))
    hosts = hosts_of(run)
    nodes = escape(folded(hosts))
    if len(hosts) > 1:
        nodes = f'<span data-nodes="{escape(" ".join(hosts))}">{nodes}</span>'
    return [*cells, served(values) or "", nodes]


TITLES = (
    "run",
    "launched",
    "verdict",
    "speed",
    "ratio",
    "interval",
    "against",
    *(metric_of(key).title or key for key in READ[:4]),
    "served",
    "nodes",
)
"""Columns of the table of all runs."""


def place(ratio: float) -> float:
    """Place of a ratio on the axis, which is logarithmic."""
    inside = min(max(ratio, 1 / RANGE), RANGE)
    return round(WIDTH * (0.5 + 0.42 * log(inside, RANGE)), 1)


def ratio_svg(ratio: SpeedRatio) -> str:
    """A dot with its interval; 1 is in the middle. The cells beside it say the same."""
    low = place(ratio.low)
    high = place(ratio.high or RANGE)
    line = f'<path d="M{low} 9H{high}"/>'
    dot = f"<circle cx={place(ratio.value)} cy=9 r=4 />"
    return f"<svg class=r>{line}{dot}</svg>"


def axis_svg() -> str:
    """The axis above the dots."""
    ticks = []
    for tick in TICKS:
        ticks.append(f"<text x={place(tick)} y=11 text-anchor=middle>{tick:g}</text>")
    return f'<svg class=axis viewBox="0 0 {WIDTH} 14" aria-hidden=true>{"".join(ticks)}</svg>'


def section(
    run: RunResult, name: str, number: int, explained: Explanation | None, *, brief: bool
) -> Iterator[str]:
    """The section on a run; its anchor stands inside, because a browser opens the closed
    details that a link leads into.
    """
    verdict = run.verdict
    yield f"<details class=run id=s{number}><summary>{escape(name)} {verdict_html(run.judgement)}"
    yield f"<br><small>{escape(run.run_id)}</small></summary>"
    reason = verdict.reason if verdict else "benchrun compare judges it"
    yield f"<p id=r{number}>{escape(reason)}</p>"
    if explained:
        yield from _explanation(explained, brief=brief)
    measured = basis_rows(verdict) if verdict else []
    if run.metrics:
        measured += metrics_rows(run.metrics)
    spare = SPARE if brief else ()
    yield "<h3>Measured</h3>" + slots(measured, spare)
    conditions = [*_launched(run), *spec_rows(run.spec), *_environment(run)]
    yield "<h3>Conditions</h3>" + slots(conditions, spare) + "</details>"


def _explanation(explained: Explanation, *, brief: bool) -> Iterator[str]:
    """Where the step goes, and why it is as long as it is."""
    step_s = explained.step_time_s
    begin = 0.0
    yield "<h3>From the GPU's peak to the measured step</h3><table class=fall>"
    yield "<thead><tr><th>part<th>s<th>%<td></thead>"
    for part in explained.waterfall:
        share = 100 * part.seconds / step_s
        left = min(begin, begin + share)
        begin += share
        if brief and abs(share) < 100 * SMALLEST_PART:
            continue
        kind = "class=c " if part.cause else ""
        bar = f"<i {kind}style=--l:{left:.1f}%;--w:{abs(share):.1f}%></i>"
        yield f"<tr><td>{escape(part.part)}<td>{part.seconds:.4g}<td>{share:.1f}<td>{bar}"
    yield f"<tr><td>the step<td>{step_s:.4g}<td>100.0<td></table>"
    table = causes_table(explained)
    if brief:
        table = Table(table.titles[:5], [row[:5] for row in table.rows if row[1] == "fault"])
    if table.rows:
        yield "<h3>Causes</h3>" + table_html(table)
    missing = explained.missing
    if brief:
        missing = ["benchrun explain has its small parts, its choices and the advice"]
    for each in missing:
        yield f"<p class=soft>To know more: {escape(each)}</p>"


def causes_table(explained: Explanation) -> Table:
    """Causes with evidence and advice, the largest fault first."""
    titles = ("cause", "kind", "s", "of the step", "evidence", "advice")
    rows = []
    for cause in explained.causes:
        share = f"{100 * cause.seconds / explained.step_time_s:.1f} %"
        name = cause.cause.replace("_", " ")
        if cause.rank is not None:
            name += f", rank {cause.rank}"
        if cause.host:
            name += f" on {cause.host}"
        rows.append((name, cause.kind, cause.seconds, share, cause.evidence, cause.advice))
    return Table(titles, rows)


def _launched(run: RunResult) -> Iterator[tuple[str, str]]:
    if run.launched:
        yield "launched", f"{run.launched:%Y-%m-%d %H:%M} UTC"


def _environment(run: RunResult) -> Iterator[tuple[str, str]]:
    """Versions and nodes."""
    own = str(run.environment.get("commit") or run.environment.get("benchrun") or "")
    versions = {**run.versions, "benchrun": own[:COMMIT]}
    known = [f"{name} {version}" for name, version in versions.items() if version]
    if known:
        yield "versions", ", ".join(known)
    nodes = objects(run.environment.get("nodes"))
    if nodes:
        yield "nodes", ", ".join(hosts_of(run))
    drivers = dict.fromkeys(str(node["driver"]) for node in nodes if node.get("driver"))
    if drivers:
        yield "driver", ", ".join(drivers)
