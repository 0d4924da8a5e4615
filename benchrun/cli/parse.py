"""benchrun parse: a log in numbers."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from benchrun import app
from benchrun.cli.options import (
    json_option,
    log_framework_option,
    print_json,
    print_views,
    read_logs,
    say,
    setting_options,
    warmup_option,
)
from benchrun.errors import UserError
from benchrun.spec.artifacts import STDOUT
from benchrun.vocabulary import Exit, worst

if TYPE_CHECKING:
    from benchrun.app import Log, Rows, Summary

FOLLOW_S = 1.0
"""How often a growing log is read."""


@click.command("parse")
@click.argument("logs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="LOG...")
@warmup_option
@log_framework_option
@click.option("--recipe", help="What was trained, for TFLOPS and MFU, where the log does not say.")
@setting_options
@click.option("--steps", metavar="csv|jsonl|FILE", help="The rows instead: csv or jsonl on stdout, or a file of these.")
@click.option("--plot", type=click.Path(path_type=Path), metavar="FILE", help="Draw step time over steps.")
@click.option("--follow", is_flag=True, help="Print steps as a growing log gets them, until the last planned one.")
@json_option
def command(
    logs: tuple[Path, ...],
    warmup: int | None,
    framework: str | None,
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
    setting = app.setting(**given)
    form, target = _steps_target(steps)
    if form and target is None and as_json:
        raise UserError("--json and --steps both want stdout", hint="--steps FILE.csv")
    found = [_follow(logs, framework)] if follow else read_logs(logs, framework)
    summaries = [app.summarise_log(log, setting, logs, warmup) for log in found]
    if len(found) > 1 and (form or plot):
        names = "; ".join(log.file for log in found)
        raise UserError(f"{'--steps' if form else '--plot'} takes one run, these are {len(found)}: {names}")
    if form:
        _print_steps(found[0].steps, form, target)
    if plot and summaries[0].num_steps:
        from benchrun.report.plot import plot_steps

        plot_steps(app.rows_of(found[0], setting), summaries[0], plot)
    if as_json:
        documents = [summary.model_dump(mode="json") for summary in summaries]
        print_json(documents if len(documents) > 1 else documents[0])
    elif not form or target:
        from benchrun.report.terminal import summary_view

        print_views(*map(summary_view, summaries))
    return worst(map(_exit_code, summaries))


def _exit_code(summary: Summary) -> Exit:
    """INCONCLUSIVE where a log gives no number to rely on; a log without steps is named on stderr."""
    if not summary.num_steps:
        say(f"{summary.file}: no step of any known framework ({', '.join(app.read_frameworks())})")
    unreliable = not summary.num_steps or summary.complete is False or summary.fatal
    return Exit.INCONCLUSIVE if unreliable else Exit.OK


def _steps_target(steps: str | None) -> tuple[str | None, Path | None]:
    """The format and the file of ``--steps``; no file for stdout."""
    from benchrun.report.steps import FORMATS

    if steps is None or steps in FORMATS:
        return steps, None
    form = Path(steps).suffix.lstrip(".")
    if form not in FORMATS:
        raise UserError(f"--steps {steps}: neither csv nor jsonl, nor a file that ends so")
    return form, Path(steps)


def _print_steps(rows: Rows, form: str, target: Path | None) -> None:
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


def _follow(logs: Sequence[Path], framework: str | None) -> Log:
    """Print the steps of one growing log until it is complete or the user interrupts."""
    if len(logs) != 1 or logs[0].is_dir() or str(logs[0]) == "-":
        raise UserError("--follow takes one file", hint=f"benchrun parse --follow run/{STDOUT}")
    if not logs[0].exists():
        say(f"{logs[0]} is not there yet; waiting for it")
    tail = app.follow(logs[0], framework)
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
