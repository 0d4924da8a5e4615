"""A check of nodes for a terminal."""

from benchrun.show.table import Table, plain

from .fleet import Fleet, TestRow

COLUMNS = ("measured", "of", "compared", "median", "lowest", "outlier below", "unit")


def fleet_view(fleet: Fleet, reason: str | None = None) -> str:
    """The tests, the outliers and the exclude list; first the ``reason`` why the job
    did not end well.
    """
    if reason and not fleet.nodes:
        return f"NO RESULT: {reason}\n"
    lines = []
    if reason:
        lines.append(f"{reason}\n")
    lines.append(f"{_counted(len(fleet.nodes), 'node')} measured\n\n")
    if fleet.tests:
        lines += [plain(Table(COLUMNS, list(map(_row, fleet.tests)))), "\n"]
    for model in fleet.other_models:
        lines.append(f"OTHER GPU  {', '.join(model.nodes)}: {model.gpu}, not compared\n")
    found = {"OUTLIER": fleet.outliers, "SLOW PAIR": fleet.slow_pairs, "FASTER": fleet.faster}
    for title, findings in found.items():
        for finding in findings:
            lines.append(f"{title:<11}{finding.sentence}\n")
    for host in fleet.missing:
        lines.append(f"NO RESULT  {host}\n")
    if fleet.exclude:
        lines.append(f"\n--exclude={','.join(fleet.exclude)}\n")
    elif not fleet.slow_pairs:
        lines.append(f"{_no_outlier(fleet)}\n")
    return "".join(lines)


def _row(row: TestRow) -> list[str]:
    compared = "no: fewer than 3"
    limit = "-"
    if row.limit_percent is not None:
        compared = "yes"
        limit = f"{-row.limit_percent:.1f} %"
    return [
        f"{row.test} ({row.work})",
        _counted(row.count, row.of),
        compared,
        f"{row.median:.4g}",
        f"{row.lowest:.4g} ({100 * (row.lowest / row.median - 1):+.1f} %)",
        limit,
        row.unit,
    ]


def _counted(count: int, noun: str) -> str:
    if count == 1:
        return f"{count} {noun}"
    return f"{count} {noun}s"


def _no_outlier(fleet: Fleet) -> str:
    if fleet.faster:
        return "no outlier, but most of the nodes may be slow"
    if not fleet.comparable:
        return "too few to tell a slow one: three are needed"
    if fleet.missing:
        return "no outlier among what was measured"
    return "no outlier"
