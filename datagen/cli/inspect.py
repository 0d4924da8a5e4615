"""``datagen inspect``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from datagen import inspection
from datagen.cli.options import PATH

BAR = 40
"""Characters of the longest bar of the histogram."""


@click.command("inspect")
@click.argument("path", type=PATH, metavar="PREFIX")
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
    yield from _counts(report) if report["unit"] else _facts(report["manifest"])
    for file in report["files"]:
        yield f"sha256     {file['sha256']}  {file['file']}"
    result = {True: "all checksums agree", False: report["fault"], None: "none"}[report["intact"]]
    yield f"manifest   {result}"


def _facts(manifest: dict[str, Any]) -> Iterator[str]:
    yield manifest["kind"]
    for name, value in {**manifest["parameters"], **manifest["facts"]}.items():
        if value is not None:
            yield f"  {name:20} {value}"


def _counts(report: dict[str, Any]) -> Iterator[str]:
    unit = report["unit"]
    kind = f" of {report['dtype']}, the largest {report['largest_token']}" if unit == "tokens" else ""
    yield f"documents  {report['documents']:,}"
    yield f"{unit:10} {report[unit]:,}{kind}"
    yield f"entropy    {report['entropy_bits']} bits per {unit[:-1]}; {report[f'distinct_{unit}']:,} distinct {unit}"
    if length := report["length"]:
        quantiles = f"{length['p5']:,.0f} / {length['median']:,.0f} / {length['p95']:,.0f} at 5 / 50 / 95 %"
        yield f"length     {length['mean']:,} on average; {quantiles}; {length['min']:,} to {length['max']:,}"
    most = max((row["documents"] for row in report["histogram"]), default=1)
    for row in report["histogram"]:
        bar = "#" * round(BAR * row["documents"] / most)
        yield f"  {row['from']:>9,} to {row['to']:>9,}  {row['documents']:>12,}  {bar}"
    if document := report["document"]:
        head = " ".join(map(str, document["head"]))
        yield f"document {document['number']}: {document['length']:,} {unit}: {head} ..."
