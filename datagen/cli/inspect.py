"""``datagen inspect``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from benchrun.errors import UserError
from datagen.cli.options import Place
from datagen.inspection import inspect_tokens
from datagen.inspection_lines import inspect_lines, inspect_manifest, lines_of
from datagen.output import beside
from datagen.summary import prefix_of

BAR = 40


@click.command("inspect")
@click.argument("path", type=Place(), metavar="PREFIX")
@click.option("--document", type=click.IntRange(min=0), default=0, help="Whose beginning to show.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def command(path: Path, document: int, as_json: bool) -> int:
    """What is in a data set, and whether it still is what its manifest says.

    PREFIX is a Megatron data set, JSON lines (whoever made them), packed data or a tokenizer directory. Every byte is
    read. Exit code 4 if something changed since it was made.
    """
    found = _inspect(path, document)
    click.echo(json.dumps(found, indent=1) if as_json else "\n".join(_text(found)))
    return 4 if found["intact"] is False else 0


def _inspect(path: Path, document: int) -> dict[str, Any]:
    if path.is_dir():
        return inspect_manifest(path / "manifest")
    try:
        return _read(path, document)
    except UserError as error:
        prefix = prefix_of(path)
        if not beside(prefix, ".json").exists() or (found := inspect_manifest(prefix))["intact"]:
            raise
        click.echo(f"error: {error}", err=True)  # it cannot be read because it is damaged: the manifest says where
        return found


def _read(path: Path, document: int) -> dict[str, Any]:
    if lines := lines_of(path):
        return inspect_lines(lines, document)
    if beside(prefix_of(path), ".npy").exists():
        return inspect_manifest(prefix_of(path))
    return inspect_tokens(path, document)


def _text(found: dict[str, Any]) -> list[str]:
    lines = _counts(found) if found["unit"] else _facts(found)
    lines.extend(f"sha256     {file['sha256']}  {file['file']}" for file in found["files"])
    said = {True: "all checksums agree", False: found["fault"], None: "none beside it"}[found["intact"]]
    return [*lines, f"manifest   {said}"]


def _facts(found: dict[str, Any]) -> list[str]:
    manifest = found["manifest"]
    facts = {**manifest["parameters"], **manifest["facts"]}
    return [manifest["kind"], *(f"  {name:20} {value}" for name, value in facts.items() if value is not None)]


def _counts(found: dict[str, Any]) -> list[str]:
    unit = found["unit"]
    kind = f" of {found['dtype']}, the largest {found['largest_token']}" if unit == "tokens" else ""
    lines = [
        f"documents  {found['documents']:,}",
        f"{unit:10} {found[unit]:,}{kind}",
        f"entropy    {found['entropy_bits']} bits each; {found[f'distinct_{unit}']:,} different ones",
    ]
    if length := found["length"]:
        quantiles = f"{length['p5']:,.0f} / {length['median']:,.0f} / {length['p95']:,.0f} at 5 / 50 / 95 %"
        lines.append(f"length     {length['mean']:,} on average; {quantiles}; {length['min']:,} to {length['max']:,}")
    most = max((row["documents"] for row in found["histogram"]), default=1)
    for row in found["histogram"]:
        bar = "#" * round(BAR * row["documents"] / most)
        lines.append(f"  {row['from']:>9,} to {row['to']:>9,}  {row['documents']:>12,}  {bar}")
    if document := found["document"]:
        head = " ".join(map(str, document["head"]))
        lines.append(f"document {document['number']}: {document['length']:,} {unit}: {head} ...")
    return lines
