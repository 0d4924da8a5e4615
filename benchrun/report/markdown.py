"""One run as a Markdown page: what a person puts into a ticket."""

from __future__ import annotations

from benchrun.report.runs import RunResult
from benchrun.report.terminal import check_line, metrics_rows, reference_line
from benchrun.spec.runspec import RunSpec


def run_page(result: RunResult) -> str:
    """Verdict or ending, reason, numbers, conditions. A run that measured nothing has problems in place of numbers."""
    verdict, metrics = result.verdict, result.numbers
    lines = [f"# {result.run_id}", ""]
    if verdict is None:
        lines += [f"**{result.judgement}**: benchrun status {result.run_id} says how it ended", ""]
    else:
        limits = "".join(f" ({label.text})" for label in verdict.labels)
        lines += [f"**{verdict.verdict}**{limits}: {verdict.reason}", ""]
        lines += [f"- {check_line(check)}" for check in verdict.checks]
        if verdict.chosen_because is not None:
            lines.append(f"- chosen: {verdict.chosen_because.sentence}")
        if verdict.nearest is not None:
            lines.append(f"- nearest reference: {reference_line(verdict.nearest)}")
        lines.append("")
    if metrics is not None:
        lines += ["| measured | |", "|---|---|", *_rows(metrics_rows(metrics)), ""]
    elif result.metrics is not None:
        lines += [f"- {problem.kind}: {problem.detail}" for problem in result.metrics.problems]
        lines.append("")
    lines += ["| conditions | |", "|---|---|", *_rows(_conditions(result.spec))]
    return "\n".join(lines) + "\n"


def _conditions(spec: RunSpec) -> list[tuple[str, str]]:
    layout = spec.layout
    nodes = f"{spec.num_nodes} node{'s' if spec.num_nodes > 1 else ''}"
    return [
        (
            "workload",
            f"{spec.recipe}, {spec.task}" + (f", proxy: {', '.join(spec.reduced)}" if spec.proxy else ""),
        ),
        ("framework", f"{spec.framework}, image {spec.container_image or 'none'}"),
        (
            "hardware",
            f"{spec.num_gpus} x {spec.gpu} on {nodes} (cluster {spec.cluster.name})",
        ),
        ("precision", spec.precision),
        ("batch", f"global {spec.gbs}, micro {spec.mbs}, sequence {spec.seq_length}"),
        ("layout", f"tp {layout.tp}, pp {layout.pp}, cp {layout.cp}, vp {layout.vp}, ep {layout.ep}, dp {spec.dp}"),
    ]


def _rows(rows: list[tuple[str, str]]) -> list[str]:
    return [f"| {name} | {value.replace('|', '&#124;')} |" for name, value in rows]
