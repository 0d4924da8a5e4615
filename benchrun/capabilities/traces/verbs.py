"""Verbs on traces: fingerprint."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from benchrun import api
from benchrun.cli.options import FILE, json_option, print_json, say

if TYPE_CHECKING:
    from .usecase import Choice


@click.command("fingerprint")
@click.argument("traces", nargs=-1, required=True, type=FILE, metavar="TRACE...")
@click.option(
    "--window",
    type=click.Choice(["device", "steps"]),
    default="device",
    show_default=True,
    help="Measure from a rank's first device event to its last, or whole marked steps.",
)
@json_option
def fingerprint(traces: tuple[Path, ...], window: "Choice", as_json: bool) -> None:
    """Show where the time of each rank goes: compute, communication, copies, idle by
    cause, kernels, slow ranks.

    A TRACE is a Kineto file (.json), an Nsight Systems export (.sqlite), both
    compressed or not, a report (.nsys-rep) if nsys is installed, a directory with a
    file per rank, or a profiled run. Give the files of all ranks together: one rank
    cannot tell a slow link from a late neighbour. What a trace does not hold is null.
    """
    result, empty = api.fingerprint_of(traces, window)
    if result.window != window:
        say(
            f"the traces of this run were not kept: this is its kept fingerprint, of --window {result.window}"
        )
    for file in empty:
        say(f"left out, no event of a GPU: {file}")
    if as_json:
        print_json(result.model_dump(mode="json", by_alias=True))
    else:
        from .view import fingerprint_text

        click.echo(fingerprint_text(result), nl=False)
