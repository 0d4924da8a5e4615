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
@click.option(
    "--kernels",
    "kernel_class",
    type=click.Choice(["matmul", "attention", "memory_bound", "communication"]),
    help="Show every kernel of this class in place of the other tables.",
)
@click.option(
    "--html",
    "page",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write a picture of the ranks over time to a new page.",
)
@json_option
def fingerprint(
    traces: tuple[Path, ...],
    window: "Choice",
    kernel_class: str | None,
    page: Path | None,
    as_json: bool,
) -> None:
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
        from .view import fingerprint_text, kernels_text

        text = kernels_text(result, kernel_class) if kernel_class else fingerprint_text(result)
        click.echo(text, nl=False)
    if page:
        api.save_timeline(traces, window, page)
        say(f"written: {page}")
