"""Verbs that explain runs: explain, diff."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from benchrun import app
from benchrun.cli.complete import runs_or_files
from benchrun.cli.options import baseline_option, context_options, flags, json_option, print_json, say
from benchrun.errors import NoNumberError, UserError
from benchrun.vocabulary import Exit, worst

if TYPE_CHECKING:
    from benchrun.app import Explanation


@click.command("explain")
@click.argument("run", metavar="RUN|LOG", shell_complete=runs_or_files)
@baseline_option
@click.option(
    "--trace",
    "traces",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="A trace of the run, or a directory with one per rank; default: those in the run's folder `profile`.",
)
@context_options
@click.option("--format", "form", type=click.Choice(["text", "markdown"]), default="text", show_default=True)
@json_option
def explain(run: str, baseline: str | None, traces: tuple[Path, ...], form: str, as_json: bool, **context: Any) -> Exit:
    """Why a step of RUN takes as long as it does: from the GPU's peak to the measured step, causes, advice.

    A cause is a fault where other ranks, steps or nodes, the ceilings or the hardware table show that the same work can
    be faster, and else a choice of recipe and layout. It uses what is there: the log, the samples of the GPUs, the
    ceilings, the profiled step, the times of ranks and hosts, traces; the last lines say what would make it sharper.

    Of a LOG alone, of any framework, it uses what the log states, and the options for what it does not state. Exit code
    1 with a fault of 3 % of the step and more; 4 without measured steps, and where the log has a fatal problem or ends
    early.
    """
    unreliable = None
    if Path(run).is_file():
        result, unreliable = _of_log(Path(run), baseline, traces, context)
    else:
        if given := [name for name, value in context.items() if value is not None]:
            raise UserError(f"{flags(given)}: for a log alone, a run states it", hint=f"benchrun explain {run}")
        result = app.explain_run(app.open_run(run), traces, baseline)
    if as_json:
        print_json(result.model_dump(mode="json"))
    else:
        from benchrun.report.explanation import explanation_text

        click.echo(explanation_text(result, page=form == "markdown"), nl=False)
    if unreliable is None:
        return result.exit_code
    say(f"{run}: no number to rely on, {unreliable}")
    return Exit.INCONCLUSIVE


def _of_log(
    log: Path, baseline: str | None, traces: tuple[Path, ...], context: dict[str, Any]
) -> "tuple[Explanation, str | None]":
    """The explanation of a log alone."""
    if baseline:
        hint = f"with a run or a log: benchrun diff {log} {baseline}; with published numbers: benchrun compare {log}"
        raise UserError("--against is for a run, and a log alone is compared by diff and compare", hint=hint)
    recipe, framework, warmup = (context.pop(name) for name in ("recipe", "framework", "warmup"))
    return app.explain_log(log, app.Setting(**context), recipe, framework, warmup, traces)


@click.command("diff")
@click.argument("runs_or_logs", nargs=-1, required=True, metavar="A B...", shell_complete=runs_or_files)
@json_option
def diff(runs_or_logs: tuple[str, ...], as_json: bool) -> Exit:
    """Runs or logs against the first of them: the ratio of their times, what differs, where the seconds went.

    The times are those for as many tokens on a GPU. With more than two, --json gives an array. Exit code 1 where one is
    slower beyond the interval of the ratio and by 2 % at least, as repeats of a run differ by that; 4 where the steps
    do not show it, where they train another model or task, or steps of other sizes whose tokens a log does not state,
    which is not comparable, and where a log that is not slower has a fatal problem or ends early.
    """
    if len(runs_or_logs) < 2:
        raise UserError("diff takes two runs or logs, or more", hint="benchrun status lists runs")
    try:
        results = app.differ(runs_or_logs)
    except NoNumberError as error:
        if not as_json:
            click.echo(f"no ratio: {error.where}: {error.message}")
        raise
    if as_json:
        documents = [result.model_dump(mode="json") for result in results]
        print_json(documents if len(documents) > 1 else documents[0])
    else:
        from benchrun.report.explanation import difference_text

        click.echo("\n".join(map(difference_text, results)), nl=False)
    for line in dict.fromkeys(line for result in results for line in result.unreliable):
        say(f"no number to rely on, {line}")
    return worst(result.exit_code for result in results)
