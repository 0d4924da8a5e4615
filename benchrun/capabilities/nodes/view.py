"""A check of nodes for a terminal."""

from benchrun.capabilities.nodes.fleet import Fleet
from benchrun.show.table import Table, plain

COLUMNS = ("measured", "of", "compared", "median", "lowest", "outlier below", "unit")


def fleet_view(fleet: Fleet, reason: str | None = None) -> str:
    """The tests, the outliers and the exclude list; first the ``reason`` why the job did not end well."""
    rows = [
        [
            f"{row.test} ({row.work})",
            f"{row.count} {row.of}{'s' if row.count != 1 else ''}",
            "no: fewer than 3" if row.limit_percent is None else "yes",
            f"{row.median:.4g}",
            f"{row.lowest:.4g} ({100 * (row.lowest / row.median - 1):+.1f} %)",
            "-" if row.limit_percent is None else f"{-row.limit_percent:.1f} %",
            row.unit,
        ]
        for row in fleet.tests
    ]
    if reason and not fleet.nodes:
        return f"NO RESULT: {reason}\n"
    lines = [f"{reason}\n"] if reason else []
    lines += [f"{len(fleet.nodes)} node{'s' if len(fleet.nodes) != 1 else ''} measured\n\n"]
    lines += [plain(Table(COLUMNS, rows)), "\n"] if rows else []
    lines += [f"OTHER GPU  {', '.join(model.nodes)}: {model.gpu}, not compared\n" for model in fleet.other_models]
    lines += [f"OUTLIER    {finding.sentence}\n" for finding in fleet.outliers]
    lines += [f"SLOW PAIR  {finding.sentence}\n" for finding in fleet.slow_pairs]
    lines += [f"FASTER     {finding.sentence}\n" for finding in fleet.faster]
    lines += [f"NO RESULT  {host}\n" for host in fleet.missing]
    if fleet.exclude:
        lines.append(f"\n--exclude={','.join(fleet.exclude)}\n")
    elif fleet.faster and not fleet.slow_pairs:
        lines.append("no outlier, but most of the nodes may be slow\n")
    elif not fleet.slow_pairs:
        none = "no outlier among what was measured\n" if fleet.missing else "no outlier\n"
        lines.append(none if fleet.comparable else "too few to tell a slow one: three are needed\n")
    return "".join(lines)
