"""Verbs on runs: status, cancel."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from benchrun import api, paths
from benchrun.errors import UserError, closest
from benchrun.vocabulary import worst

from .complete import recipe_names, run_names
from .options import each, json_option, opened, print_json, run_id, say

if TYPE_CHECKING:
    from benchrun.api import Observation, RunDir, Step


@click.command("status")
@click.argument("runs", nargs=-1, shell_complete=run_names)
@click.option(
    "--last",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    help="How many runs of a folder to show, the newest.",
)
@click.option(
    "--state",
    "states",
    multiple=True,
    help="Only runs in this state, e.g. running, failed, completed.",
)
@click.option("--recipe", shell_complete=recipe_names, help="Only runs of this recipe.")
@click.option(
    "--watch", is_flag=True, help="Follow the runs that have not ended. Ctrl-C leaves them running."
)
@json_option
def status(
    runs: tuple[str, ...],
    last: int,
    states: tuple[str, ...],
    recipe: str | None,
    watch: bool,
    as_json: bool,
) -> int:
    """Show how RUNS are going (by default the newest): state, job, nodes, age, steps,
    and how each ended. A folder stands for the newest of its runs.
    """
    _check_states(states)
    newest = None if states or recipe else last
    chosen, code = opened(runs, newest, lambda name: api.runs_at(name)[-newest if newest else 0 :])
    observations = {
        each.run: each for each in api.observe([run for run in chosen if _is_of(run, recipe)])
    }
    if watch:
        follow([run for run, observation in observations.items() if not observation.over])
        observations = {each.run: each for each in api.observe([*observations])}
    rows, failed = each([*observations], lambda run: api.status_of(observations[run]), run_id)
    rows = [row for row in rows if not states or row["state"] in states]
    if not runs:
        rows = rows[-last:]
    if as_json:
        print_json(rows)
    elif not rows and not runs:
        say(no_runs(*states, recipe))
    elif rows:
        from benchrun.show.status import status_lines

        for line in status_lines(rows):
            click.echo(line)
    return worst((code, failed))


def no_runs(*kinds: str | None) -> str:
    """A remark that the runs folder has no run of these ``kinds``."""
    what = " ".join(filter(None, [*kinds, "runs"]))
    folder = paths.runs_dir().absolute()
    hint = "go to the directory that you launched from"
    return f"no {what} in {folder}: {hint}, or set BENCHRUN_RESULTS to the folder that holds runs/"


def _check_states(states: tuple[str, ...]) -> None:
    """UserError for a word that is no state of a run."""
    from benchrun.rundir.artifacts import Ending

    legal = [
        "pending",
        "running",
        "suspended",
        "ended",
        "gone",
        "unknown",
        *(ending.value for ending in Ending),
    ]
    for state in states:
        if state not in legal:
            raise UserError(f"no state is called '{state}'", hint=closest(state, legal))


def _is_of(run: "RunDir", recipe: str | None) -> bool:
    """Whether a run is of ``recipe``; also one that cannot be read, which is named
    later.
    """
    try:
        return recipe is None or run.spec.recipe == recipe
    except UserError:
        return True


def follow(runs: "Sequence[RunDir]") -> list[str]:
    """Show the progress of runs until they have ended; after Ctrl-C the ids of those
    that go on.
    """
    from .progress import RunsProgress

    left = {run.run_id: None for run in runs}
    with RunsProgress(runs) as progress:

        def show(observation: "Observation", steps: "list[Step]") -> None:
            progress.show(observation, steps)
            if observation.over:
                left.pop(observation.run.run_id, None)

        try:
            api.wait_for(runs, show)
        except KeyboardInterrupt:
            return [*left]
    return []


@click.command("cancel")
@click.argument("runs", nargs=-1, shell_complete=run_names)
@click.option(
    "--all", "every", is_flag=True, help="Stop every run in the runs folder that has not ended."
)
def cancel(runs: tuple[str, ...], every: bool) -> int:
    """Stop RUNS, from any shell. A run that has ended is left as it is."""
    if every is bool(runs):
        raise UserError("name the RUNS to stop, or --all", hint="benchrun status lists them")

    def stop(run: "RunDir") -> None:
        say(f"{run.run_id}: {'asked to stop' if api.cancel(run) else 'it has no job in the queue'}")

    chosen, code = opened(runs)
    if every:
        others = [run for run in chosen if run.read_only]
        if others:
            say(f"left alone, not yours: {', '.join(map(run_id, others))}")
        chosen = [
            each.run
            for each in api.observe([run for run in chosen if not run.read_only])
            if not each.over
        ]
        if not chosen:
            say(f"no run of yours in {paths.runs_dir().absolute()} is going on")
    return worst((code, each(chosen, stop, run_id)[1]))
