"""``datagen inspect``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from datagen.inspection import inspect

BAR = 40


@click.command("inspect")
@click.argument("path", type=click.Path(path_type=Path), metavar="PREFIX")
@click.option("--document", type=click.IntRange(min=0), default=0, help="Whose first tokens to show.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def command(path: Path, document: int, as_json: bool) -> int:
    """What is in a Megatron data set, and whether it still is what its manifest says.

    Reads every byte. Exit code 4 if the data was damaged since it was made.
    """
    found = inspect(path, document)
    click.echo(json.dumps(found, indent=1) if as_json else _text(found))
    return 4 if found["intact"] is False else 0


def _text(found: dict[str, Any]) -> str:
    lines = [
        f"documents  {found['documents']:,}",
        f"tokens     {found['tokens']:,} of {found['dtype']}, the largest {found['largest_token']}",
        f"entropy    {found['entropy_bits']} bits a token; {found['distinct_tokens']:,} tokens occur",
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
        lines.append(f"document {document['number']}: {document['length']:,} tokens: {head} ...")
    lines.extend(f"sha256     {file['sha256']}  {file['bin']}" for file in found["files"])
    said = {True: "all checksums agree", False: found["fault"], None: "none beside it"}[found["intact"]]
    lines.append(f"manifest   {said}")
    return "\n".join(lines)
