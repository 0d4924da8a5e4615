"""One run as a Markdown page: what a person puts into a ticket."""

from __future__ import annotations

from benchrun.compare.result import RunResult
from benchrun.report.references import check_line, reference_line
from benchrun.report.table import Column, Table, markdown
from benchrun.report.terminal import metrics_rows
from benchrun.spec.runspec import RunSpec


def run_page(result: RunResult) -> str:
    """Verdict or ending, reason, numbers, conditions. A run that measured nothing has problems in place of numbers."""
    verdict, metrics = result.verdict, result.numbers
    parts = [f"# {result.run_id}\n"]
    if verdict is None:
        parts.append(f"**{result.judgement}**: benchrun status {result.run_id} says how it ended\n")
    else:
        limits = "".join(f" ({label.text})" for label in verdict.labels)
        lines = [f"**{verdict.verdict}**{limits}: {verdict.reason}\n"]
        lines += [f"- {check_line(check)}" for check in verdict.checks]
        if verdict.chosen_because is not None:
            lines.append(f"- chosen: {verdict.chosen_because.sentence}")
        if verdict.nearest is not None:
            lines.append(f"- nearest reference: {reference_line(verdict.nearest)}")
        parts.append("\n".join(lines) + "\n")
    if metrics is not None:
        parts.append(_table("measured", metrics_rows(metrics)))
    elif result.metrics is not None:
        parts.append("".join(f"- {problem.kind}: {problem.detail}\n" for problem in result.metrics.problems))
    return "\n".join([*parts, _table("conditions", _conditions(result.spec))])


def _table(title: str, rows: list[tuple[str, str]]) -> str:
    return markdown(Table((Column(title), Column("")), rows))


def _conditions(spec: RunSpec) -> list[tuple[str, str]]:
    layout = spec.layout
    nodes = f"{spec.num_nodes} node{'s' if spec.num_nodes > 1 else ''}"
    proxy = f", proxy: {', '.join(map(str, spec.reduced))}" if spec.proxy else ""
    return [
        ("workload", f"{spec.recipe}, {spec.task}{proxy}"),
        ("framework", f"{spec.framework}, image {spec.container_image or 'none'}"),
        ("hardware", f"{spec.num_gpus} x {spec.gpu} on {nodes} (cluster {spec.cluster.name})"),
        ("precision", spec.precision),
        ("batch", f"global {spec.gbs}, micro {spec.mbs}, sequence {spec.seq_length}"),
        ("layout", f"tp {layout.tp}, pp {layout.pp}, cp {layout.cp}, vp {layout.vp}, ep {layout.ep}, dp {spec.dp}"),
    ]
