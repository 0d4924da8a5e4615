"""benchrun doctor: what this machine can do."""

from __future__ import annotations

from dataclasses import asdict

import click

from benchrun import app
from benchrun.cli.options import json_option, print_json


@click.command("doctor")
@json_option
def command(as_json: bool) -> None:
    """What this machine can do: Slurm, accounting, container runtimes, GPUs, the worker's libraries, disk."""
    from benchrun.report.table import aligned

    findings = app.examine()
    if as_json:
        print_json([asdict(finding) for finding in findings])
        return
    hints = [f"  ({finding.hint})" if finding.hint else "" for finding in findings]
    cells = [(f.what, f"{f.found or 'no'}{hint}") for f, hint in zip(findings, hints, strict=True)]
    for line in aligned(cells):
        click.echo("  ".join(line))
