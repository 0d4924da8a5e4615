"""A verb, and a format of reports."""

import click

from benchrun.show.model import ReportModel


@click.command()
@click.argument("name")
def greet(name: str) -> None:
    """Greet somebody."""
    click.echo(f"hello, {name}")


def lines(report: ReportModel, *, by: str) -> str:
    """One line a run, whatever a row is."""
    return "".join(f"{run.run_id}: {run.judgement}\n" for run in report.results)
