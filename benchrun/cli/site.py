"""Verbs on a site: doctor, site, images."""

from dataclasses import asdict

import click

from benchrun import app
from benchrun.cli.options import json_option, print_json


@click.command("doctor")
@json_option
def doctor(as_json: bool) -> None:
    """What this machine can do: Slurm, accounting, container runtimes, GPUs, the worker's libraries, disk."""
    from benchrun.report.table import aligned

    findings = app.examine()
    if as_json:
        print_json([asdict(finding) for finding in findings])
        return
    rows = [(f.what, f"{f.found or 'no'}{f'  ({f.hint})' if f.hint else ''}") for f in findings]
    click.echo("\n".join("  ".join(row) for row in aligned(rows)))
