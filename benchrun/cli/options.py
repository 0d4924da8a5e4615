"""Options that several verbs share, and printing."""

import functools
import json
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from benchrun import api, kept, paths
from benchrun.errors import BenchrunError, UserError, exit_code_of
from benchrun.files import write_new
from benchrun.vocabulary import LARGEST_SIZE, MOST_GPUS, Exit, worst

from .complete import (
    cluster_names,
    dialect_names,
    gpu_names,
    point_values,
    recipe_names,
    runs_or_files,
)

if TYPE_CHECKING:
    from benchrun.api import Log, RunDir

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")
R = TypeVar("R")

FILE = click.Path(path_type=Path)
PROFILERS = click.Choice(("kineto", "nsys", "xplane"))
PRECISIONS = ("fp32", "fp16", "bf16", "fp8", "nvfp4")
"""Precisions that a log may have: more than what can be launched."""
SHOWN = 5
"""Files that are named if many are left out."""
SPELLED = {"peak": "peak-tflops"}
"""Options whose argument has another name."""
run_id = attrgetter("run_id")

baseline_option = click.option(
    "--baseline",
    "--reference",
    "--against",
    "baseline",
    envvar=paths.BASELINE,
    show_envvar=True,
    metavar="DIR|RUN|ID",
    shell_complete=runs_or_files,
    help="Compare with this alone: a run, the runs in a folder, or the published number of this id.",
)
retries_option = click.option(
    "--retries",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Launch a failed run again, up to this many times.",
)
json_option = click.option(
    "--json", "as_json", is_flag=True, help="One JSON document on stdout, nothing else."
)


def all_of(*options: Callable[[F], F]) -> Callable[[F], F]:
    """One decorator for several options."""
    return lambda function: functools.reduce(
        lambda decorated, option: option(decorated), reversed(options), function
    )


choice_options = all_of(
    click.option(
        "--gpu",
        shell_complete=point_values,
        help="GPU of the point, e.g. H100; CPU for the tiny ones.",
    ),
    click.option("--precision", shell_complete=point_values, help="fp8, bf16 or fp32."),
    click.option(
        "--num-gpus",
        type=click.IntRange(1, MOST_GPUS),
        shell_complete=point_values,
        help="Number of GPUs, or of CPU processes.",
    ),
    click.option(
        "--framework",
        shell_complete=point_values,
        help="Framework, in its newest release that fits; by default the recipe's first that has this point.",
    ),
    click.option(
        "--cluster",
        metavar="NAME|FILE",
        shell_complete=cluster_names,
        help="Site file or shipped cluster; by default one with the point's GPU.",
    ),
    click.option(
        "--set",
        "overrides",
        metavar="KEY=VALUE",
        multiple=True,
        help="Override a value of the recipe; checked like the file.",
    ),
)
"""The options that choose a point of a recipe: the fields of `api.Request`."""
published_options = all_of(
    click.option(
        "--published",
        is_flag=True,
        help="Every point with a published number, as one suite with its GPU-hours.",
    ),
    click.option(
        "--max-gpus",
        type=click.IntRange(1, MOST_GPUS),
        help="With --published: only points of at most so many GPUs.",
    ),
)
point_options = all_of(click.argument("recipe", shell_complete=recipe_names), choice_options)

_SETTING = (
    ("--precision", click.Choice(PRECISIONS, case_sensitive=False), "Precision"),
    ("--num-gpus", click.IntRange(1, MOST_GPUS), "Number of GPUs"),
    ("--seq-length", click.IntRange(1, LARGEST_SIZE), "Tokens per sample"),
    ("--gbs", click.IntRange(1, LARGEST_SIZE), "Samples per step"),
)
_of_work = (
    click.option(
        "--recipe",
        shell_complete=recipe_names,
        help="Recipe that the job trained, if the log does not state the model.",
    ),
    click.option("--gpu", shell_complete=gpu_names, help="GPU, if the log does not state it."),
    *(
        click.option(name, type=kind, help=f"{what}, if the log does not state it.")
        for name, kind, what in _SETTING
    ),
)
_of_rows = (
    click.option(
        "--framework",
        shell_complete=dialect_names,
        help="Framework that wrote the log; by default recognised.",
    ),
    click.option(
        "--warmup",
        type=click.IntRange(min=0),
        metavar="ROWS",
        help="Rows to drop at the start; by default 5 or a tenth, whichever is more.",
    ),
)
_peak = click.option(
    "--peak-tflops",
    "peak",
    type=click.FloatRange(min=0, min_open=True),
    help="Dense peak of the GPU at the run's precision, if the GPU is not listed.",
)
context_options = all_of(*_of_work, *_of_rows)
"""Options for what a log may not state.

Those of _of_work, except --recipe, are fields of `api.Setting`.
"""
log_options = all_of(*_of_work, _peak, *_of_rows, json_option)
"""The options of verbs on logs."""


def each(
    items: Iterable[T], read: Callable[[T], R], name: Callable[[T], str] = str
) -> tuple[list[R], Exit]:
    """Results of ``read`` for each of ``items``, and the exit code.

    An error goes to stderr and hides no other item.

    ``name`` returns the name of an item, for errors that state no place.
    """
    results = []
    codes = []
    for item in items:
        try:
            results.append(read(item))
        except (BenchrunError, OSError) as error:
            place = getattr(error, "where", None) or getattr(error, "filename", None)
            say(f"error: {error}" if place else f"error: {name(item)}: {error}")
            codes.append(exit_code_of(error) if isinstance(error, OSError) else error.exit_code)
    return results, worst(codes)


def opened(
    names: Sequence[str],
    last: int | None = None,
    open_name: "Callable[[str], list[RunDir]] | None" = None,
) -> "tuple[list[RunDir], Exit]":
    """Each of the runs called ``names`` once, or the ``last`` runs of the runs folder
    (or all), and the exit code.

    ``open_name`` returns the runs that a name stands for, if not one. Runs that cannot
    be read are named on stderr and count for the exit code if ``names`` has them.
    """
    newest = [] if names else api.find_runs()[-last if last else 0 :]
    runs, code = each(
        names or [str(run.path) for run in newest], open_name or (lambda name: [api.open_run(name)])
    )
    return list(dict.fromkeys(chain(*runs))), code if names else Exit.OK


def read_logs(files: Sequence[Path], framework: str | None) -> "list[Log]":
    """One log for each run in these files; what is left out is named on stderr."""
    logs, left_out = api.read_logs(files, framework)
    if left_out:
        more = ""
        if len(left_out) > SHOWN:
            more = f" and {len(left_out) - SHOWN} more"
        say(
            f"left out, neither a step nor part of a run: {', '.join(map(str, left_out[:SHOWN]))}{more}"
        )
    return logs


def check_published(
    published: bool, max_gpus: int | None, num_gpus: int | None, others: dict[str, Any]
) -> bool:
    """Return ``published``. UserError if it stands without one number of GPUs, or with
    one of ``others``, or the largest number without it.
    """
    hint = "for example: --published --gpu H100 --max-gpus 64"
    if max_gpus and not published:
        raise UserError("--max-gpus goes with --published", hint=hint)
    if published and (max_gpus is None) is (num_gpus is None):
        raise UserError("--published takes either --max-gpus or --num-gpus", hint=hint)
    for name, value in others.items():
        if published and value:
            raise UserError(f"--published goes without {name}", hint=hint)
    return published


def flags(names: Iterable[str]) -> str:
    """Names of arguments as options."""
    return " and ".join(f"--{SPELLED.get(name, name).replace('_', '-')}" for name in names)


def print_json(document: Any) -> None:
    """Print one JSON document on stdout."""
    click.echo(json_text(document), nl=False)


def json_text(document: Any) -> str:
    """A JSON document as text, with a newline at its end."""
    return json.dumps(document, indent=2, allow_nan=False) + "\n"


def print_views(*views: Any) -> None:
    """Print rich texts on stdout, unwrapped."""
    from rich.console import Console

    console = Console()
    for view in views:
        console.print(view, soft_wrap=True)


def say(text: str) -> None:
    """Print a remark on stderr: stdout is for results."""
    click.echo(kept.shown(text), err=True)


def interrupted(what: str) -> Exit:
    """The exit code after Ctrl-C, with a remark that the jobs of ``what`` run on."""
    say(
        f"\nThe jobs run on. The same command goes on with the {what}; benchrun status shows the jobs"
    )
    return Exit.INTERRUPTED


def write_text(text: str, output: Path | None, counted: str = "") -> None:
    """Write ``text`` into the new file ``output``, and say so with what is ``counted`` in
    it, or to stdout without one.
    """
    if output is None:
        click.echo(text, nl=False)
    else:
        write_new(output, text)
        say(f"wrote {output}{counted}")
