"""Options that several verbs share, and the small things around them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from benchrun.errors import UserError

if TYPE_CHECKING:
    from benchrun.launch.rundir import RunDir
    from benchrun.recipe.select import Request

F = TypeVar("F", bound=Callable[..., Any])

PRECISIONS = ("fp32", "fp16", "bf16", "fp8", "nvfp4")
"""Of logs: more than what can be launched."""
SHOWN = 5
"""Files that are named where many are left out."""

json_option = click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout, nothing else.")


def point_options(function: F) -> F:
    """The options that choose a point, the same for every verb."""
    options = [
        click.argument("recipe"),
        click.option("--gpu", help="GPU of the point, e.g. H100; CPU for the tiny ones."),
        click.option("--precision", help="fp8, bf16 or fp32."),
        click.option("--num-gpus", type=click.IntRange(min=1), help="Number of GPUs, or of CPU processes."),
        click.option("--framework", help="What trains; the recipe's first framework if not given."),
        click.option("--cluster", metavar="NAME|FILE", help="Cluster profile; one with the point's GPU if not given."),
        click.option(
            "--set", "overrides", metavar="KEY=VALUE", multiple=True, help="Change a value; checked like the file."
        ),
    ]
    for option in reversed(options):
        function = option(function)
    return function


def known_options(function: F) -> F:
    """The options that say under which conditions a log was made, where it does not say so itself."""
    options = [
        click.option("--gpu", help="Which GPU, where the log does not say."),
        click.option(
            "--precision",
            type=click.Choice(PRECISIONS, case_sensitive=False),
            help="Which precision, where the log does not say.",
        ),
        click.option("--num-gpus", type=click.IntRange(min=1), help="How many GPUs, where the log does not say."),
        click.option("--seq-length", type=click.IntRange(min=1), help="Tokens a sample, where the log does not say."),
        click.option("--gbs", type=click.IntRange(min=1), help="Samples a step, where the log does not say."),
    ]
    for option in reversed(options):
        function = option(function)
    return function


def known(
    recipe: str | None,
    gpu: str | None,
    precision: str | None,
    num_gpus: int | None,
    seq_length: int | None,
    gbs: int | None,
) -> Any:
    """Those options, and what ``recipe`` trains, as conditions. UserError for a GPU that is not listed."""
    from benchrun import hardware
    from benchrun.metrics.known import Known

    if gpu is not None:
        listed = {name.lower(): name for name in (*hardware.names(), "CPU")}
        if gpu.lower() not in listed:
            raise UserError(f"no GPU '{gpu}' in the hardware table", hint=f"listed: {', '.join(hardware.names())}")
        gpu = listed[gpu.lower()]
    if recipe is None:
        return Known(seq_length, gbs, num_gpus, gpu, precision)
    from benchrun.recipe.catalogue import recipe_file

    workload = recipe_file(recipe).recipe
    return Known(seq_length or workload.seq_length, gbs, num_gpus, gpu, precision, workload.model, workload.task)


def request(
    recipe: str,
    gpu: str | None,
    precision: str | None,
    num_gpus: int | None,
    framework: str | None,
    cluster: str | None,
    overrides: tuple[str, ...],
) -> Request:
    """The options as one request."""
    from benchrun.recipe.select import Request  # parsing a log needs no recipes

    return Request(recipe, gpu, precision, num_gpus, framework, cluster, overrides)


def runs_named(names: tuple[str, ...], last: int | None = None) -> list[RunDir]:
    """The runs called ``names``; where none is named every one, or the ``last`` so many.

    One of those that cannot be read, of another version say, is left out with a word: the others are asked for too.
    """
    from benchrun import paths
    from benchrun.launch.rundir import find_runs, open_runs

    root = paths.runs_dir()
    if names:
        return open_runs(root, names)
    readable = []
    for run in find_runs(root)[-last if last else 0 :]:
        try:
            run.spec  # noqa: B018
        except UserError as error:
            say(f"left out: {error}")
        else:
            readable.append(run)
    return readable


def each_named(names: tuple[str, ...]) -> tuple[list[RunDir], int]:
    """The runs called ``names`` and the exit code: what cannot be opened is named on stderr, and hides no other."""
    from benchrun import paths
    from benchrun.errors import BenchrunError, MachineError
    from benchrun.launch.rundir import open_run

    found, codes = [], [0]
    for name in names:
        try:
            found.append(open_run(paths.runs_dir(), name))
        except (BenchrunError, OSError) as error:
            say(f"error: {error}")
            codes.append(getattr(error, "exit_code", MachineError.exit_code))
    return list(dict.fromkeys(found)), worst(codes)


def one_run(logs: Sequence[Path]) -> None:
    """UserError for a directory of several runs: together they would be read as one."""
    for path in logs:
        runs = sorted(spec.parent for spec in path.glob("*/spec.json")) if path.is_dir() else []
        if len(runs) > 1:
            raise UserError(f"holds {len(runs)} runs", where=str(path), hint=f"name one of them, e.g. {runs[-1]}")


def worst(codes: Iterable[int]) -> int:
    """The exit code of several results: wrong input and a failing machine first, then slow, then inconclusive."""
    found = set(codes)
    return next((code for code in (2, 3, 1, 4) if code in found), 0)


def runs_in(logs: Sequence[Path], framework: str | None) -> list[Any]:
    """One log for each run in these files and directories; what is left out is named on stderr."""
    from benchrun.frameworks.logs import parse_logs

    found, left_out = parse_logs(*logs, framework=framework)
    if left_out:
        more = f" and {len(left_out) - SHOWN} more" if len(left_out) > SHOWN else ""
        say(f"left out, without a step and of no run here: {', '.join(map(str, left_out[:SHOWN]))}{more}")
    return found


def print_json(document: Any) -> None:
    """Print one JSON document on stdout."""
    click.echo(json.dumps(document, indent=2, allow_nan=False))


def say(text: str) -> None:
    """Talk goes to stderr: stdout is for results."""
    click.echo(text, err=True)
