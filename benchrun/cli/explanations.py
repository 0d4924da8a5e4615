"""Verbs that explain runs: explain, diff."""

from pathlib import Path

import click

from benchrun import app
from benchrun.cli.options import json_option, print_json
from benchrun.vocabulary import Exit


@click.command("explain")
@click.argument("run")
@click.option("--against", metavar="RUN|ID", help="Another run of the same work, or the id of a published number.")
@click.option(
    "--trace",
    "traces",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="A trace of the run, or a directory with one per rank; default: those in the run's folder `profile`.",
)
@click.option("--format", "form", type=click.Choice(["text", "markdown"]), default="text", show_default=True)
@json_option
def explain(run: str, against: str | None, traces: tuple[Path, ...], form: str, as_json: bool) -> None:
    """Why a step of RUN takes as long as it does: from the GPU's peak to the measured step, causes, advice.

    A cause is a fault where other ranks, steps or nodes, the ceilings or the hardware table show that the same work can
    be faster, and else a choice of recipe and layout. It uses what is there: the log, the samples of the GPUs, the
    ceilings, the profiled step, the times of ranks and hosts, traces; the last lines say what would make it sharper.
    """
    result = app.explain_run(app.open_run(run), traces, against)
    if as_json:
        print_json(result.model_dump(mode="json"))
        return
    from benchrun.report.explanation import explanation_text

    click.echo(explanation_text(result, page=form == "markdown"), nl=False)


@click.command("diff")
@click.argument("a")
@click.argument("b")
@json_option
def diff(a: str, b: str, as_json: bool) -> Exit:
    """Run B against run A: the ratio of their times for as many tokens, what differs, where the seconds went.

    Exit code 1 where B is slower beyond the interval of the ratio.
    """
    result = app.differ(app.open_run(a), app.open_run(b))
    if as_json:
        print_json(result.model_dump(mode="json"))
    else:
        from benchrun.report.explanation import difference_text

        click.echo(difference_text(result), nl=False)
    return result.exit_code
