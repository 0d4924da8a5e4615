"""Verbs that explain runs: explain, diff."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from benchrun import api, kept
from benchrun.cli.complete import runs_or_files
from benchrun.cli.options import (
    FILE,
    baseline_option,
    context_options,
    flags,
    json_option,
    print_json,
    say,
)
from benchrun.errors import NoNumberError, UserError
from benchrun.vocabulary import Exit, worst

if TYPE_CHECKING:
    from benchrun.api import Explanation, Hung, RunDir


@click.command("explain")
@click.argument("run", metavar="RUN|LOG", required=False, shell_complete=runs_or_files)
@click.option(
    "--dumps",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    metavar="DIR",
    help="In place of RUN: dumps of PyTorch's Flight Recorder, one a rank, of any job that hung.",
)
@baseline_option
@click.option(
    "--trace",
    "traces",
    multiple=True,
    type=FILE,
    metavar="FILE",
    help="A trace of the run, or a directory with one per rank; default: those in the run's folder `profile`.",
)
@context_options
@click.option(
    "--format", "form", type=click.Choice(["text", "markdown"]), default="text", show_default=True
)
@json_option
def explain(
    run: str | None,
    dumps: Path | None,
    baseline: str | None,
    traces: tuple[Path, ...],
    form: str,
    as_json: bool,
    **context: Any,
) -> Exit:
    """Explain why a step of RUN takes so long: from the GPU's peak to the measured
    step, causes, advice.

    A cause is a fault if other ranks, steps or nodes, the ceilings or the hardware
    table show that the same work can be faster. Otherwise it is a choice of recipe or
    layout. Everything that the run has is used: the log, the samples of the GPUs, the
    ceilings, the profiled step, the times of ranks and hosts, traces. The last lines
    say what would make the answer sharper.

    For a LOG alone, of any framework, finished or not, the options add what the log does
    not state; its own timers, reports on ranks and NCCL's lines are used. Where the speed
    changes, the run is split and each part explained. Exit code 1: there is a fault of 3 %
    of the step or more, or the step is clearly longer by as much than that of the other
    run. Exit code 4: no step was measured, or the log has a fatal problem.

    For a run that hung it says which ranks the others wait for, in which collective of
    which group, and whether the host or the device is the cause; with --dumps for any
    job. Exit code 4: it hangs.
    """
    given = [name for name, value in context.items() if value is not None]
    unreliable = None
    result: Explanation | Hung
    if run is None or dumps:
        if run or dumps is None or given or baseline or traces:
            hint = "benchrun explain RUN, or benchrun explain --dumps DIR"
            raise UserError("explain takes one of a run, a log, and dumps alone", hint=hint)
        result = api.explain_dumps(dumps)
    else:
        try:
            if kept.place(Path(run)).is_file():
                result, unreliable = _of_log(Path(run), baseline, traces, context)
            elif given:
                message = f"{flags(given)}: for a log alone, a run states it"
                raise UserError(message, hint=f"benchrun explain {run}")
            else:
                result = _of_run(api.open_run(run), traces, baseline)
        except NoNumberError as error:
            if not as_json:
                raise
            say(f"error: {error}")
            result = api.Hung(run=run, missing=(error.message,), hang=None)
    if as_json:
        print_json(result.model_dump(mode="json"))
    else:
        from .view import text_of

        click.echo(text_of(result, page=form == "markdown"), nl=False)
    if unreliable is None:
        return result.exit_code
    say(f"{run}: no number to rely on, {unreliable}")
    return Exit.INCONCLUSIVE


def _of_run(run: "RunDir", traces: tuple[Path, ...], baseline: str | None) -> "Explanation | Hung":
    """The hang of a run, else the explanation of its step."""
    hung = api.explain_hung(run)
    if hung and hung.hang:
        return hung
    try:
        return api.explain_run(run, traces, baseline)
    except NoNumberError:
        if hung is None:
            raise
        return hung


def _of_log(
    log: Path, baseline: str | None, traces: tuple[Path, ...], context: dict[str, Any]
) -> "tuple[Explanation, str | None]":
    """The explanation of a log alone."""
    if baseline:
        hint = f"with a run or a log: benchrun diff {log} {baseline}; with published numbers: benchrun compare {log}"
        raise UserError(
            "--against is for a run, and a log alone is compared by diff and compare", hint=hint
        )
    recipe, framework, warmup = (context.pop(name) for name in ("recipe", "framework", "warmup"))
    return api.explain_log(log, api.Setting(**context), recipe, framework, warmup, traces)


@click.command("diff")
@click.argument(
    "runs_or_logs", nargs=-1, required=True, metavar="A B...", shell_complete=runs_or_files
)
@json_option
def diff(runs_or_logs: tuple[str, ...], as_json: bool) -> Exit:
    """Compare runs or logs with the first of them: the ratio of their times, what
    differs, where the seconds went.

    Times are compared for the same number of tokens per GPU. With more than two, --json
    gives an array. Exit code 1: one is slower, beyond the interval of the ratio and by
    at least 2 %, by which repeats of a run differ. Exit code 4: the steps do not decide
    it; model, task or step size are not comparable; or a log that is not slower has a
    fatal problem or ends early.
    """
    if len(runs_or_logs) < 2:
        raise UserError("diff takes two runs or logs, or more", hint="benchrun status lists runs")
    try:
        results = api.differ(runs_or_logs)
    except NoNumberError as error:
        if not as_json:
            click.echo(f"no ratio: {error.where}: {error.message}")
        raise
    if as_json:
        documents = [result.model_dump(mode="json") for result in results]
        print_json(documents if len(documents) > 1 else documents[0])
    else:
        from .view import difference_text

        click.echo("\n".join(map(difference_text, results)), nl=False)
    for line in dict.fromkeys(line for result in results for line in result.unreliable):
        say(f"no number to rely on, {line}")
    return worst(result.exit_code for result in results)
