"""docs/published.md: published numbers by workload. ``python -m benchrun.report.published`` prints it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import click

from benchrun.compare.references import Reference, load_references
from benchrun.report.table import Table, column, markdown

HEADER = """\
# Published numbers

Made from [results/reference](../results/reference) by `python -m benchrun.report.published`; do not edit it here. Best
is what gives most tokens/s/GPU of the whole model, without what was revised or misprinted. Batch and layout differ from
scale to scale and from source to source: `benchrun show` and a verdict name the entry that a point is held against.
"""
COLUMNS = (
    *map(column, ("GPU", "precision", "sequence", "GPUs", "numbers", "best")),
    *(column("tokens/s/GPU", ",.0f"), column("flags"), column("source")),
)
NOTHING = "-"


def page(entries: Sequence[Reference]) -> str:
    """The whole page."""
    speeds = sorted((entry for entry in entries if entry.metric != "final_loss"), key=lambda entry: entry.key.recipe)
    parts = [HEADER]
    for recipe, listed in groupby(speeds, key=lambda entry: entry.key.recipe):
        parts.append(f"\n## {recipe}\n\n{markdown(_table(list(listed)))}")
    return "".join(parts)


def _table(entries: list[Reference]) -> Table:
    def group(entry: Reference) -> tuple[str, str, int, bool]:
        key = entry.key  # a ratio is no speed, and has a line of its own
        return key.gpu, key.precision or NOTHING, key.seq_length or 0, entry.metric == "fsdp_over_3d"

    rows = [_row(list(same)) for _, same in groupby(sorted(entries, key=group), key=group)]
    return Table(COLUMNS, rows, missing=NOTHING)


def _row(entries: list[Reference]) -> list[Any]:
    """One GPU, precision and sequence length."""
    key = entries[0].key
    conditions = [key.gpu, key.precision, key.seq_length or None, _scales(entries), len(entries)]
    best = max(
        (entry for entry in entries if not {"misprint", "revised", "proxy"} & set(entry.flags)),
        key=_speed,
        default=None,
    )
    if best is None:
        return [*conditions, None, None, None, None]
    speed = _speed(best)[0]
    source = f"{best.source.who} {best.source.date}, {best.source.where}"
    return [*conditions, _published(best), speed or None, " ".join(best.flags), source]


def _published(entry: Reference) -> str:
    """The number as printed, and its scale."""
    gpus = f" on {entry.key.num_gpus}" if entry.key.num_gpus else ""
    batch = f", GBS {entry.key.gbs}" if entry.key.gbs else ""
    what = ", FSDP over 3D parallelism" if entry.metric == "fsdp_over_3d" else ""
    return f"{entry.value:g} {entry.unit}{what}{gpus}{batch}"


def _speed(entry: Reference) -> tuple[float, float, str]:
    """Sorts by tokens/s/GPU (0 where the row does not state it), then by value, then by date."""
    value = entry.value
    return entry.tokens_per_s_per_gpu, -value if entry.better == "lower" else value, entry.source.date


def _scales(entries: list[Reference]) -> str:
    """Numbers of GPUs; of proxies apart."""
    whole = {entry.key.num_gpus or 0 for entry in entries if "proxy" not in entry.flags}
    proxies = {entry.key.num_gpus or 0 for entry in entries if "proxy" in entry.flags}
    listed = ", ".join(str(count or "not stated") for count in sorted(whole))
    fewer = f"with fewer layers {', '.join(map(str, sorted(proxies)))}" if proxies else ""
    return "; ".join(filter(None, (listed, fewer)))


if __name__ == "__main__":
    click.echo(page(load_references()), nl=False)
