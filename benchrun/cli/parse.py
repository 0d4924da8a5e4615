"""benchrun parse: a log in numbers."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click

from benchrun.cli.options import json_option, known, known_options, one_run, print_json, runs_in, say
from benchrun.errors import UserError

FOLLOW_S = 1.0
"""How often a growing log is looked at."""


@click.command("parse")
@click.argument("logs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="LOG...")
@click.option("--warmup", type=click.IntRange(min=0), metavar="ROWS", help="Rows to drop; 5 or a tenth if not given.")
@click.option("--framework", help="Whose log it is; found out if not given.")
@click.option("--recipe", help="What was trained, for TFLOPS and MFU, where the log does not say.")
@known_options
@click.option("--steps", metavar="csv|jsonl|FILE", help="The rows instead: csv or jsonl on stdout, or a file of these.")
@click.option("--plot", type=click.Path(path_type=Path), metavar="FILE", help="Draw step time over steps.")
@click.option("--follow", is_flag=True, help="Print steps as a growing log gets them, until the last planned one.")
@json_option
def command(
    logs: tuple[Path, ...],
    warmup: int | None,
    framework: str | None,
    recipe: str | None,
    steps: str | None,
    plot: Path | None,
    follow: bool,
    as_json: bool,
    **given: Any,
) -> int:
    """Step time, tokens/s/GPU, TFLOPS and problems of a training LOG.

    A LOG is a file (plain, gzip, zstd or xz), a directory, also a run's, or - for stdin. Files that agree in all they
    state are one run: of ranks, nodes, stdout and stderr, before and after a requeue. Others are runs of their own, and
    --json gives an array. What a log does not hold is null. Exit code 4: no step, an early end, or a fatal problem.
    """
    from benchrun.metrics.rows import measured
    from benchrun.metrics.summary import summarise

    one_run(logs)
    conditions = known(recipe, **given)
    form, target = _steps_target(steps)
    if form and target is None and as_json:
        raise UserError("--json and --steps both want stdout", hint="--steps FILE.csv")
    found = [_follow(logs, framework)] if follow else runs_in(logs, framework)
    summaries = [_with_telemetry(summarise(log, warmup=warmup, given=conditions), logs) for log in found]
    if len(found) > 1 and (form or plot):
        names = "; ".join(log.file for log in found)
        raise UserError(f"{'--steps' if form else '--plot'} takes one run, these are {len(found)}: {names}")
    if form:
        _dump_steps(found[0].steps, form, target)
    if plot and summaries[0].num_steps:
        from benchrun.metrics import known as logged
        from benchrun.report.plot import plot_steps

        plot_steps(measured(found[0], logged.known(found[0], conditions)), summaries[0], plot)
    if as_json:
        documents = [summary.model_dump(mode="json") for summary in summaries]
        print_json(documents if len(documents) > 1 else documents[0])
    elif not form or target:
        from rich.console import Console

        from benchrun.report.terminal import summary_view

        for summary in summaries:
            Console().print(summary_view(summary), soft_wrap=True)
    return max(_exit_code(summary) for summary in summaries)


def _exit_code(summary: Any) -> int:
    """4 where a log gives no number to rely on, and why on stderr if nothing else says so."""
    if not summary.num_steps:
        from benchrun.frameworks.logs import DIALECTS

        say(f"{summary.file}: no step of any known framework ({', '.join(sorted(DIALECTS))})")
    return 4 if not summary.num_steps or summary.complete is False or summary.fatal else 0


def _with_telemetry(summary: Any, paths: tuple[Path, ...]) -> Any:
    """The summary, for a run directory with what was sampled beside the training."""
    run = next((path for path in paths if str(path) == summary.file and (path / "spec.json").is_file()), None)
    if run is None:
        return summary
    from benchrun import flow
    from benchrun.launch.rundir import RunDir

    samples = flow.samples_of(RunDir(run), summary)
    return summary.model_copy(update={"telemetry": samples.over_all if samples else None})


def _steps_target(steps: str | None) -> tuple[str | None, Path | None]:
    """What ``--steps`` says -> (format, file; None for stdout)."""
    from benchrun.report.steps import FORMATS

    if steps is None or steps in FORMATS:
        return steps, None
    form = Path(steps).suffix.lstrip(".")
    if form not in FORMATS:
        raise UserError(f"--steps {steps}: neither csv nor jsonl, nor a file that ends so")
    return form, Path(steps)


def _dump_steps(rows: Any, form: str, target: Path | None) -> None:
    from benchrun.report.steps import lines

    if target is None:
        for line in lines(rows, form):
            click.echo(line)
        return
    try:
        with target.open("w") as file:
            file.writelines(f"{line}\n" for line in lines(rows, form))
    except OSError as error:
        raise UserError(f"cannot be written: {error.strerror}", where=str(target)) from error


def _follow(logs: tuple[Path, ...], framework: str | None) -> Any:
    """Read one growing log until it is complete, or until the reader is interrupted."""
    from benchrun.frameworks.logs import Tail

    if len(logs) != 1 or logs[0].is_dir() or str(logs[0]) == "-":
        raise UserError("--follow takes one file", hint="benchrun parse --follow run/stdout.log")
    if not logs[0].exists():
        say(f"{logs[0]} is not there yet; waiting for it")
    tail = Tail(logs[0], framework)
    try:
        while True:
            for row in tail.read():
                timing = f"{row.step_time_s:.4g} s" if row.step_time_s else ""
                rate = f"{row.tokens_per_s_per_gpu:,.0f} tokens/s/GPU" if row.tokens_per_s_per_gpu else ""
                loss = f"loss {row.loss:.4f}" if row.loss is not None else ""
                say("  ".join(filter(None, (f"step {row.step}", timing, rate, loss))))
            log = tail.log()
            if log.complete(log.planned_steps):
                return log
            time.sleep(FOLLOW_S)
    except KeyboardInterrupt:
        return tail.log()
