"""benchrun launch: run a point or a suite."""

from __future__ import annotations

from typing import Any

import click

from benchrun.cli.options import point_options, request, say


@click.command("launch")
@point_options
@click.option("--repeats", type=click.IntRange(min=1), default=1, show_default=True, help="Runs of each point.")
@click.option("--wait", is_flag=True, help="Follow the runs, then judge them. Ctrl-C leaves them running.")
@click.option("--dry-run", is_flag=True, help="Check everything and print the scripts; launch nothing.")
def command(repeats: int, wait: bool, dry_run: bool, **point: Any) -> int:
    """Run RECIPE (a recipe or a suite) and print the run ids."""
    from benchrun import flow, paths
    from benchrun.memory import warning
    from benchrun.recipe.layout import slow_links
    from benchrun.render import render

    specs = flow.resolve_all(request(**point))
    for spec in specs:
        for note in filter(None, (warning(spec), slow_links(spec))):
            say(f"warning: {note}")
    if dry_run:
        for spec in specs:
            click.echo(render(spec)["job.sh"], nl=False)
        return 0
    root = paths.runs_dir()
    runs = []
    for spec in specs:
        for _ in range(repeats):
            run = flow.start(spec, root)
            click.echo(run.run_id)
            runs.append(run)
    if not wait:
        say(f"follow them with: benchrun status; files in {root}")
        return 0
    return _wait(runs)


def _wait(runs: list[Any]) -> int:
    from benchrun import flow
    from benchrun.cli.compare import print_verdicts
    from benchrun.cli.progress import StepProgress

    for index, run in enumerate(runs):
        try:
            with StepProgress(run.spec) as progress:
                flow.wait(run, progress.update)
        except KeyboardInterrupt:
            left = " ".join(each.run_id for each in runs[index:])
            goes_on = "The job goes on" if run is runs[-1] else "The jobs go on"
            say(f"\n{goes_on}. Come back with: benchrun status; stop with: benchrun cancel {left}")
            return 130
    return print_verdicts(runs)
