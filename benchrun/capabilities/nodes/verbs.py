"""The verb nodes: check the nodes of a cluster."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from benchrun import api
from benchrun.cli.complete import cluster_names, run_names
from benchrun.cli.options import json_option, print_json, say
from benchrun.errors import UserError
from benchrun.vocabulary import Exit

if TYPE_CHECKING:
    from benchrun.api import NodesSpec, Observation, RunDir


@click.command("nodes")
@click.argument("cluster", metavar="CLUSTER|FILE", required=False, shell_complete=cluster_names)
@click.option(
    "--num-nodes", type=click.IntRange(min=1), help="Number of nodes; by default all that are idle."
)
@click.option(
    "--exclude",
    metavar="FILE|LIST",
    help="Nodes to leave out: a list as for Slurm, or a file of names.",
)
@click.option(
    "--set",
    "overrides",
    metavar="KEY=VALUE",
    multiple=True,
    help="Set a value: repeats, image, cluster....",
)
@click.option(
    "--run",
    "run_id",
    metavar="RUN",
    shell_complete=run_names,
    help="Show a check that was launched before.",
)
@click.option(
    "--dry-run", is_flag=True, help="Check everything and print the script; launch nothing."
)
@json_option
def nodes(
    cluster: str | None,
    num_nodes: int | None,
    exclude: str | None,
    overrides: tuple[str, ...],
    run_id: str | None,
    dry_run: bool,
    as_json: bool,
) -> int:
    """Check the nodes of CLUSTER by one short job: matrix products, memory, links
    within a node and between nodes.

    A node is an outlier if it is slower than the spread of the fleet and the noise of
    its repeats explain. The names of outliers, and of nodes without a result, are
    printed and written as a list that launch --exclude takes. Exit code 1: an outlier
    or a slow pair. Exit code 4: a node or rank without a result, fewer than three nodes
    or GPUs to compare, or a few that are much faster than the rest, so that most nodes
    may be slow.
    """
    if (cluster is None) == (run_id is None):
        raise UserError("name either a CLUSTER or --run RUN", hint="benchrun nodes mysite.yaml")
    if run_id is not None:
        run = api.open_run(run_id)
    else:
        spec = api.nodes_check(str(cluster), num_nodes, exclude, overrides)
        if dry_run:
            return _print_script(spec, as_json)
        run = api.start(spec)
        say(run.run_id)
    if run_id is not None and (why := api.unanswered(run)):
        return _print(run, why, as_json, store=False)
    try:
        state = api.wait(run, _telling())
    except KeyboardInterrupt:
        say(f"\nThe job runs on. Come back with: benchrun nodes --run {run.run_id}")
        return Exit.INTERRUPTED
    end = api.record_end(state)
    reason = None
    if end.ending.value != "completed":
        reason = (
            f"the job {end.ending.value}: {'; '.join(api.symptoms(end.evidence) or end.evidence)}"
        )
    return _print(run, reason, as_json)


def _telling() -> "Callable[[Observation, object], None]":
    """A function that says once why the scheduler does not know the job."""
    printed = {""}

    def tell(state: "Observation", _: object) -> None:
        if state.job is None and state.note not in printed:
            printed.add(state.note)
            say(f"{state.run.run_id}: {state.note}")

    return tell


def _print_script(spec: "NodesSpec", as_json: bool) -> Exit:
    """Print the job of a check; returns the exit code."""
    from benchrun.rundir.artifacts import JOB

    script = api.render(spec)[JOB]
    if as_json:
        print_json({"spec": spec.document(), "script": script})
    else:
        click.echo(script, nl=False)
    return Exit.OK


def _print(run: "RunDir", reason: str | None, as_json: bool, *, store: bool = True) -> Exit:
    """Store and print what the check found; returns the exit code. ``reason``: why the
    job did not end well.

    Without ``store`` nothing is written, because the job may go on.
    """
    from .view import fleet_view

    fleet = api.fleet_of(run)
    if store:
        api.store_fleet(run, fleet)
    if as_json:
        print_json({"run_id": run.run_id, "reason": reason, **fleet.document()})
    else:
        click.echo(fleet_view(fleet, reason), nl=False)
        say(f"files in {run.path}")
    answers = [answer for answer, _ in fleet.verdicts.values()]
    if False in answers:
        return Exit.SLOW
    if None in answers or not answers:
        return Exit.INCONCLUSIVE
    return Exit.OK
