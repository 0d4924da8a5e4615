"""benchrun doctor: what this machine can do."""

from __future__ import annotations

import click

from benchrun.cli.options import json_option, print_json


@click.command("doctor")
@json_option
def command(as_json: bool) -> None:
    """What this machine can do: Slurm, accounting, container runtimes, GPUs, the worker's libraries, disk."""
    from benchrun.launch.doctor import examine

    findings = examine()
    if as_json:
        print_json([{"what": f.what, "found": f.found, "hint": f.hint} for f in findings])
        return
    width = max(len(finding.what) for finding in findings)
    for finding in findings:
        hint = f"  ({finding.hint})" if finding.hint else ""
        click.echo(f"{finding.what:<{width}}  {finding.found or 'no'}{hint}")
