"""Verbs on runs: status, cancel, report."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from benchrun import app, paths
from benchrun.cli.options import each, json_option, opened, print_json, run_id, say
from benchrun.errors import UserError
from benchrun.vocabulary import Exit, worst

if TYPE_CHECKING:
    from benchrun.app import RunDir, RunResult


@click.command("status")
@click.argument("runs", nargs=-1)
@click.option("--last", type=click.IntRange(min=1), default=20, show_default=True, help="How many, without RUNS.")
@json_option
def status(runs: tuple[str, ...], last: int, as_json: bool) -> int:
    """How RUNS are going (the newest ones if none is named): state, steps, and how each ended."""
    chosen, code = opened(runs, last)
    observations = dict(zip(chosen, app.observe(chosen), strict=True))
    rows, failed = each(chosen, lambda run: app.status_of(observations[run]), run_id)
    if as_json:
        print_json(rows)
    elif not rows and not runs:
        say(f"no runs in {paths.runs_dir().absolute()}; BENCHRUN_RESULTS names another folder")
    else:
        for line in map(_line, rows):  # a log may hold control codes
            click.echo("".join(char if char.isprintable() else "?" for char in line))
    return worst((code, failed))


def _line(row: dict[str, Any]) -> str:
    steps = f"step {row['last_step']} of {row['planned_steps']}" if row["last_step"] else ""
    note = "; ".join(dict.fromkeys(filter(None, [*row["evidence"], row["note"]])))
    return f"{row['run_id']}  {row['state']:<12} {steps:<16} {note}".rstrip()


@click.command("cancel")
@click.argument("runs", nargs=-1, required=True)
def cancel(runs: tuple[str, ...]) -> int:
    """Stop RUNS, from any shell. A run that has ended is left as it is."""

    def stop(run: "RunDir") -> None:
        say(f"{run.run_id}: {'asked to stop' if app.cancel(run) else 'it has no job in the queue'}")

    chosen, code = opened(runs)
    return worst((code, each(chosen, stop, run_id)[1]))


@click.command("report")
@click.argument("runs", nargs=-1)
@click.option("--format", "form", type=click.Choice(["markdown", "csv"]), default="markdown", show_default=True)
@click.option("--by", type=click.Choice(["point", "framework"]), default="point", show_default=True, help="Rows.")
@click.option("--scaling", is_flag=True, help="Weak and strong curves over the number of GPUs, beside predictions.")
@click.option("--plot", type=click.Path(path_type=Path), metavar="FILE", help="Draw the curves of --scaling.")
@click.option("--keep", type=click.Path(path_type=Path), metavar="DIR", help="Keep what the RUNS measured in DIR.")
@json_option
def report(
    runs: tuple[str, ...], form: str, by: str, scaling: bool, plot: Path | None, keep: Path | None, as_json: bool
) -> int:
    """One RUN as a page, or several (all, if none is named) as a table with a row per point.

    --by framework compares the frameworks that ran the same point, the fastest first.

    With --keep each run gets a directory in DIR (results/measured): spec, environment, metrics, verdict and the
    compressed logs, without this machine's names and paths. Nothing is overwritten.

    The exit code is that of the worst verdict, as with compare; a run that was not judged does not count.
    """
    if keep and not runs:
        raise UserError("--keep needs the RUNS to keep", hint="benchrun status lists them")
    chosen, code = opened(runs)
    chosen = [run for run in chosen if runs or run.spec.reported]
    if keep:
        for run in chosen:
            say(f"kept {app.keep(run, keep).path}")
    results, failed = each(chosen, app.result_of, run_id)
    if runs and not results:
        return worst((code, failed))
    if scaling or plot:
        _curves(results, plot, as_json)
    else:
        _table(results, form, by, as_json, whole=len(runs) == 1)
    return worst((code, failed if runs else Exit.OK, *(row.verdict.exit_code for row in results if row.verdict)))


def _table(results: "list[RunResult]", form: str, by: str, as_json: bool, whole: bool) -> None:
    """Print ``results`` as a table, or as a page where there is one and it is to be shown whole."""
    from benchrun.report.runs import runs_page, table
    from benchrun.report.table import as_csv, markdown

    if by == "framework":
        from benchrun.report.frameworks import rows_of, side_by_side

        rows = side_by_side(rows_of(results))
    else:
        rows = table(results)
    if as_json:
        print_json(rows.records())
    elif form == "csv":
        click.echo(as_csv(rows), nl=False)
    elif by == "framework":
        click.echo(markdown(rows), nl=False)
    elif whole:
        from benchrun.report.terminal import run_page

        click.echo(run_page(results[0]), nl=False)
    else:
        click.echo(runs_page(results), nl=False)


def _curves(results: "list[RunResult]", plot: Path | None, as_json: bool) -> None:
    """Print every curve among ``results``."""
    views = app.measured_scaling(results)
    if as_json:
        print_json({"schema_version": 1, "curves": [view.document() for view in views]})
    elif not views:
        say("no curve: runs of one workload on at least two numbers of GPUs make one, with the same layout and batch")
    else:
        click.echo("\n".join(view.text() for view in views), nl=False)
    if plot and views:
        from benchrun.report.curve import plot as draw

        draw(views, plot)
