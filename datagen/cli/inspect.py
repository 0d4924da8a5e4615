"""``datagen inspect``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from benchrun.errors import UserError
from datagen.cli.options import Place
from datagen.inspection import inspect_lines, inspect_manifest, inspect_tokens, prefix_of
from datagen.output import beside

BAR = 40
"""Characters of the longest bar of the histogram."""


@click.command("inspect")
@click.argument("path", type=Place(), metavar="PREFIX")
@click.option("--document", type=click.IntRange(min=0), default=0, help="Number of the document to show.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(path: Path, document: int, as_json: bool) -> int:
    """Show the content of a data set and check it against its manifest.

    PREFIX is a Megatron data set or JSON lines (from any source), packed data or a tokenizer directory. Reads every
    byte. The exit code is 4 if the data changed since they were made.
    """
    report = _inspect(path, document)
    click.echo(json.dumps(report, indent=1) if as_json else "\n".join(_text(report)))
    return 4 if report["intact"] is False else 0


def _inspect(path: Path, document: int) -> dict[str, Any]:
    if path.is_dir():
        return inspect_manifest(path / "manifest")
    prefix = prefix_of(path)
    try:
        if (lines := beside(prefix, ".jsonl")).is_file():
            return inspect_lines(lines, document)
        return inspect_manifest(prefix) if beside(prefix, ".npy").exists() else inspect_tokens(path, document)
    except UserError as error:
        if not beside(prefix, ".json").exists() or (report := inspect_manifest(prefix))["intact"]:
            raise
        click.echo(f"error: {error}", err=True)  # damage is the cause: the report of the manifest shows where it is
        return report


def _text(report: dict[str, Any]) -> list[str]:
    lines = _counts(report) if report["unit"] else _facts(report)
    lines.extend(f"sha256     {file['sha256']}  {file['file']}" for file in report["files"])
    result = {True: "all checksums agree", False: report["fault"], None: "none"}[report["intact"]]
    return [*lines, f"manifest   {result}"]


def _facts(report: dict[str, Any]) -> list[str]:
    manifest = report["manifest"]
    facts = {**manifest["parameters"], **manifest["facts"]}
    return [manifest["kind"], *(f"  {name:20} {value}" for name, value in facts.items() if value is not None)]


def _counts(report: dict[str, Any]) -> list[str]:
    unit = report["unit"]
    kind = f" of {report['dtype']}, the largest {report['largest_token']}" if unit == "tokens" else ""
    lines = [
        f"documents  {report['documents']:,}",
        f"{unit:10} {report[unit]:,}{kind}",
        f"entropy    {report['entropy_bits']} bits per {unit[:-1]}; {report[f'distinct_{unit}']:,} distinct {unit}",
    ]
    if length := report["length"]:
        quantiles = f"{length['p5']:,.0f} / {length['median']:,.0f} / {length['p95']:,.0f} at 5 / 50 / 95 %"
        lines.append(f"length     {length['mean']:,} on average; {quantiles}; {length['min']:,} to {length['max']:,}")
    most = max((row["documents"] for row in report["histogram"]), default=1)
    for row in report["histogram"]:
        bar = "#" * round(BAR * row["documents"] / most)
        lines.append(f"  {row['from']:>9,} to {row['to']:>9,}  {row['documents']:>12,}  {bar}")
    if document := report["document"]:
        head = " ".join(map(str, document["head"]))
        lines.append(f"document {document['number']}: {document['length']:,} {unit}: {head} ...")
    return lines
