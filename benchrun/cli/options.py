"""Options that several verbs share, and printing."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from benchrun import app
from benchrun.errors import BenchrunError, UserError, exit_code
from benchrun.vocabulary import Exit, worst

if TYPE_CHECKING:
    from benchrun.app import Log, RunDir

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

PRECISIONS = ("fp32", "fp16", "bf16", "fp8", "nvfp4")
"""Of logs: more than what can be launched."""
SHOWN = 5
"""Files that are named where many are left out."""

json_option = click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout, nothing else.")
warmup_option = click.option(
    "--warmup", type=click.IntRange(min=0), metavar="ROWS", help="Rows to drop; 5 or a tenth if not given."
)
log_framework_option = click.option("--framework", help="Framework of a log; recognised if not given.")


def all_of(*options: Callable[[F], F]) -> Callable[[F], F]:
    """One decorator for several options."""

    def decorate(function: F) -> F:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


point_options = all_of(
    click.argument("recipe"),
    click.option("--gpu", help="GPU of the point, e.g. H100; CPU for the tiny ones."),
    click.option("--precision", help="fp8, bf16 or fp32."),
    click.option("--num-gpus", type=click.IntRange(min=1), help="Number of GPUs, or of CPU processes."),
    click.option("--framework", help="Framework; the recipe's first if not given."),
    click.option("--cluster", metavar="NAME|FILE", help="Cluster profile; one with the point's GPU if not given."),
    click.option(
        "--set", "overrides", metavar="KEY=VALUE", multiple=True, help="Change a value; checked like the file."
    ),
)
"""The options that choose a point: the fields of `app.Request`."""

_SETTING = (
    ("--gpu", str, "GPU"),
    ("--precision", click.Choice(PRECISIONS, case_sensitive=False), "Precision"),
    ("--num-gpus", click.IntRange(min=1), "Number of GPUs"),
    ("--seq-length", click.IntRange(min=1), "Tokens per sample"),
    ("--gbs", click.IntRange(min=1), "Samples per step"),
)
setting_options = all_of(
    *(click.option(name, type=kind, help=f"{what}, if the log does not state it.") for name, kind, what in _SETTING)
)
"""The options that state the setting of a log: the arguments of `app.setting`."""


def newest(last: int | None = None) -> list[RunDir]:
    """The ``last`` runs of the runs folder, or all; unreadable ones are named on stderr."""
    return [run for run, _ in readable(app.newest_runs(last), lambda run: run.spec)[0]]


def readable(runs: Sequence[RunDir], read: Callable[[RunDir], T]) -> tuple[list[tuple[RunDir, T]], list[UserError]]:
    """Each run with what ``read`` returns of it, and the errors of those that cannot be read, as named on stderr."""
    pairs, errors = [], []
    for run in runs:
        try:
            pairs.append((run, read(run)))
        except UserError as error:
            say(f"left out: {error}")
            errors.append(error)
    return pairs, errors


def opened(names: Sequence[str]) -> tuple[list[RunDir], Exit]:
    """The runs called ``names`` and the exit code; each that cannot be opened is named on stderr."""
    runs, codes = [], []
    for name in names:
        try:
            runs.append(app.open_run(name))
        except (BenchrunError, OSError) as error:
            say(f"error: {error}")
            codes.append(exit_code(error))
    return list(dict.fromkeys(runs)), worst(codes)


def opened_specs(names: Sequence[str]) -> tuple[list[RunDir], Exit]:
    """The runs called ``names`` whose specification can be read, and the exit code; the others are named on stderr."""
    runs, code = opened(names)
    valid, other = with_specs(runs)
    return valid, worst((code, other))


def with_specs(runs: Sequence[RunDir]) -> tuple[list[RunDir], Exit]:
    """Those of ``runs`` whose specification can be read, and the exit code; the others are named on stderr."""
    pairs, errors = readable(runs, lambda run: run.spec)
    return [run for run, _ in pairs], worst(map(exit_code, errors))


def read_logs(files: Sequence[Path], framework: str | None) -> list[Log]:
    """One log for each run in these files; what is left out is named on stderr."""
    logs, left_out = app.read_logs(files, framework)
    if left_out:
        more = f" and {len(left_out) - SHOWN} more" if len(left_out) > SHOWN else ""
        say(f"left out, neither a step nor part of a run: {', '.join(map(str, left_out[:SHOWN]))}{more}")
    return logs


def flags(names: Iterable[str]) -> str:
    """Names of arguments as options."""
    return " and ".join(f"--{name.replace('_', '-')}" for name in names)


def print_json(document: Any) -> None:
    """Print one JSON document on stdout."""
    click.echo(json.dumps(document, indent=2, allow_nan=False))


def print_views(*views: Any) -> None:
    """Print rich texts on stdout, unwrapped."""
    from rich.console import Console

    console = Console()
    for view in views:
        console.print(view, soft_wrap=True)


def say(text: str) -> None:
    """Print a remark on stderr: stdout is for results."""
    click.echo(text, err=True)
