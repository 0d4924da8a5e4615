"""Verbs on points: render, launch, profile."""

import functools
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from benchrun import api, extensions, paths
from benchrun.errors import MachineError, UserError
from benchrun.vocabulary import MOST_REPEATS, Exit, worst

from .complete import recipe_names
from .lookup import print_runs
from .options import (
    FILE,
    PROFILERS,
    all_of,
    check_published,
    choice_options,
    each,
    point_options,
    published_options,
    say,
)

if TYPE_CHECKING:
    from benchrun.api import RunDir, RunSpec


@click.command("render")
@point_options
@click.option("--output", type=FILE, metavar="DIR", help="Write all files into DIR.")
def render(output: Path | None, **point: Any) -> None:
    """The script that would be submitted, on stdout; with --output every file of the
    job.
    """
    spec = api.resolve_point(api.Request(**point))
    if output is None:
        click.echo(_script(spec), nl=False)
    else:
        say(f"wrote {', '.join(api.write_files(output, spec))} to {output}")


def _script(spec: "RunSpec") -> str:
    """The script that would be submitted."""
    from benchrun.rundir.artifacts import JOB  # pydantic, which a listing does without

    return api.render(spec)[JOB]


@dataclass(frozen=True)
class Launching:
    """How runs are launched."""

    repeats: int
    wait: bool
    retries: int | None
    exclude: str | None
    dry_run: bool


def launch_options(command: Callable[..., int]) -> Callable[..., int]:
    """Add the options of `Launching` to ``command``, which gets them as ``how``."""

    @functools.wraps(command)
    def with_options(**values: Any) -> int:
        how = Launching(**{field.name: values.pop(field.name) for field in fields(Launching)})
        return command(how=how, **values)

    return _options(with_options)


_options = all_of(
    click.option(
        "--repeats",
        type=click.IntRange(1, MOST_REPEATS),
        default=1,
        show_default=True,
        help="Runs of each point.",
    ),
    click.option(
        "--wait", is_flag=True, help="Follow the runs, then judge them. Ctrl-C leaves them running."
    ),
    click.option(
        "--retries",
        type=click.IntRange(min=1),
        metavar="N",
        help="Wait; if a node fails, launch its run again without that node, up to N times.",
    ),
    click.option(
        "--exclude",
        metavar="FILE|LIST",
        help="Nodes to leave out: a list as for Slurm, or a file of names.",
    ),
    click.option(
        "--dry-run",
        is_flag=True,
        help="Check everything and print the script, of a suite a table; launch nothing.",
    ),
)


@click.command("launch")
@click.argument("recipe", required=False, shell_complete=recipe_names)
@choice_options
@published_options
@click.option("--profile", type=PROFILERS, help="Profile a few steps after the measured ones.")
@launch_options
def launch(
    recipe: str | None,
    published: bool,
    max_gpus: int | None,
    profile: str | None,
    how: Launching,
    **point: Any,
) -> int:
    """Run RECIPE (a recipe or a suite) and print the run ids.

    With --published, run every point with a published number (of RECIPE, or of all
    recipes) on at most --max-gpus, or on --num-gpus, as one suite: it says the GPU-hours first, waits, and
    ends with a table and verdicts. The same command goes on after an interruption.
    """
    alone = {"--profile": profile, "--exclude": how.exclude}
    if check_published(published, max_gpus, point["num_gpus"], alone):
        recipes = [recipe] if recipe else []
        request = api.Request("", **point)
        if how.dry_run:
            show = extensions.capability("studies.published", "list_published")
            return int(show(request, max_gpus, recipes))
        run = extensions.capability("studies.published", "launch_published")
        return int(run(request, max_gpus, recipes, how.repeats, how.retries or 0))
    if recipe is None:
        raise UserError("name a RECIPE, or --published", hint="benchrun list has the recipes")
    request = api.Request(recipe, **point)
    return _launch(api.resolve_profiled(request, profile) if profile else api.resolve(request), how)


@click.command("profile")
@point_options
@click.option(
    "--tool",
    "--profile",
    type=PROFILERS,
    help="The profiler; by default the recipe's, else kineto.",
)
@launch_options
def profile(tool: str | None, how: Launching, **point: Any) -> int:
    """Run RECIPE with a few profiled steps after the measured ones: the same as launch
    --profile.

    Each profiled rank writes a trace into the run's folder `profile`. --set
    profile.steps=5 and --set 'profile.ranks=[0,8]' choose how many steps and which
    ranks.
    """
    return _launch(api.resolve_profiled(api.Request(**point), tool), how)


def _launch(resolved: "Sequence[RunSpec]", how: Launching) -> int:
    """Launch each of ``resolved``; returns the exit code."""
    specs = [api.without_nodes(spec, how.exclude) for spec in resolved]
    for spec in specs:
        for warning in api.warnings(spec):
            say(f"warning: {warning}")
    if how.dry_run:
        for spec in specs:
            if secrets := api.missing_secrets(spec):
                say(
                    f"warning: the launch needs {', '.join(secrets)}, which this shell does not set (cluster.secrets)"
                )
            script = _script(spec)
            if len(specs) == 1:
                click.echo(script, nl=False)
        if len(specs) > 1:
            print_runs([({}, spec) for spec in specs])
            say("next: the same without --dry-run; benchrun render prints the script of one point")
        return Exit.OK
    wanted = [spec for spec in specs for _ in range(how.repeats)]
    if how.wait or how.retries:
        return _launch_and_wait(wanted, how.retries or 0)
    for spec in wanted:
        click.echo(api.start(spec).run_id)
    say(f"follow them with: benchrun status; files in {paths.runs_dir()}")
    return Exit.OK


def _launch_and_wait(specs: "Sequence[RunSpec]", retries: int) -> int:
    """Launch all, in turn if the account may not have as many jobs, and wait for them;
    returns the exit code.
    """
    runs = []

    def started(run: "RunDir") -> None:
        runs.append(run)
        click.echo(run.run_id)

    try:
        errors = api.launch_all(specs, started, say, api.start)
    except KeyboardInterrupt:
        return _left([run.run_id for run in runs])
    for error in errors:
        say(f"error: {error}")
    code = _wait(runs, retries)
    if code is Exit.INTERRUPTED:
        return code
    return worst((*(error.exit_code for error in errors), code))


def _left(names: "Sequence[str]") -> Exit:
    """Say that the runs called ``names`` go on without this command."""
    still = "The job runs on"
    if len(names) > 1:
        still = "The jobs run on"
    say(f"\n{still}. Come back with: benchrun status; stop with: benchrun cancel {' '.join(names)}")
    return Exit.INTERRUPTED


def _wait(runs: "Sequence[RunDir]", retries: int) -> Exit:
    """Follow ``runs`` until they have ended, launch failed ones again, judge them;
    returns the exit code.
    """
    latest = [*runs]
    try:
        left = _follow_tries(latest, retries)
    except KeyboardInterrupt:
        left = [run.run_id for run in latest]
    if left:
        return _left(left)
    from .logs import print_verdicts

    code = print_verdicts(latest, reference=os.environ.get(paths.BASELINE) or None)
    if len(latest) > 1:
        _print_table(latest)
    return code


def _print_table(runs: "Sequence[RunDir]") -> None:
    """Print one table of ``runs``, and the command that shows more."""
    from benchrun.show.formats import formatted
    from benchrun.show.table import LINE

    data, _ = each(runs, lambda run: api.run_data(run, drawn=False), attrgetter("run_id"))
    model = api.report_on(data, scaling=False)
    click.echo("\n" + formatted(model, "terminal", width=LINE), nl=False)
    say(f"next: benchrun report --output report.html {' '.join(run.run_id for run in runs)}")


def _follow_tries(latest: "list[RunDir]", retries: int) -> "list[str]":
    """Follow runs until they have ended; one that is launched again takes the place of
    the failed one in ``latest``. Returns the names of those that the user left running.
    """
    from .runs import follow

    tries = [api.attempts(run, retries) for run in latest]
    latest[:] = [next(attempts)[0] for attempts in tries]
    following = [*latest]
    while following:
        if left := follow(following):
            return left
        following = []
        for index, attempts in enumerate(tries):
            again = None
            try:
                again = next(attempts, None)
            except MachineError as error:  # the others are still followed and judged
                say(f"error: {error}")
            if again:
                latest[index], reason = again
                following.append(latest[index])
                say(f"{reason}; launched again as {latest[index].run_id}")
    return []
