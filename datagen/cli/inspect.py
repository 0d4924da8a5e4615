"""``datagen inspect``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from datagen import inspection

BAR = 40
"""Characters of the longest bar of the histogram."""


@click.command("inspect")
@click.argument("path", type=click.Path(path_type=Path), metavar="PREFIX")
@click.option("--document", type=click.IntRange(min=0), default=0, help="Number of the document to show.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def inspect(path: Path, document: int, as_json: bool) -> int:
    """Show the content of a data set and check it against its manifest.

    PREFIX is a Megatron data set or JSON lines (from any source), packed data or a tokenizer directory. Reads every
    byte. The exit code is 4 if the data changed since they were made.
    """
    report = inspection.inspect(path, document)
    click.echo(json.dumps(report, indent=1) if as_json else "\n".join(_lines(report)))
    return 4 if report["intact"] is False else 0


def _lines(report: dict[str, Any]) -> Iterator[str]:
    """A line for each number and name of the report, or of the manifest if that is all; then the tables."""
    manifest = report["manifest"]
    facts = report if report["unit"] else {"kind": manifest["kind"], **manifest["parameters"], **manifest["facts"]}
    for name, value in facts.items():
        if isinstance(value, str | int | float) and name not in ("schema_version", "intact", "fault"):
            yield f"{name:20} {value:,}" if isinstance(value, int) else f"{name:20} {value}"
    for name, value in (report.get("length") or {}).items():
        yield f"{'length, ' + name:20} {round(value, 2):,}"
    rows = report.get("histogram") or []
    for row in rows:
        bar = "#" * round(BAR * row["documents"] / max(row["documents"] for row in rows))
        yield f"  {row['from']:>9,} to {row['to']:>9,}  {row['documents']:>12,}  {bar}"
    if document := report.get("document"):
        head = " ".join(map(str, document["head"]))
        yield f"document {document['number']}: {document['length']:,} {report['unit']}: {head} ..."
    for file in report["files"]:
        yield f"{'sha256':20} {file['sha256']}  {file['file']}"
    result = {True: "all checksums agree", False: report["fault"], None: "none"}[report["intact"]]
    yield f"{'manifest':20} {result}"
