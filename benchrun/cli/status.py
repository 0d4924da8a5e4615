"""benchrun status: how runs are going, and how they ended."""

from __future__ import annotations

import contextlib
from typing import Any

import click

from benchrun.cli.options import each_named, json_option, print_json, runs_named, say, worst


@click.command("status")
@click.argument("runs", nargs=-1)
@click.option(
    "--last", type=click.IntRange(min=1), default=20, show_default=True, help="Without RUNS: the newest so many."
)
@json_option
def command(runs: tuple[str, ...], last: int, as_json: bool) -> int:
    """How RUNS are going (the newest ones if none is named): state, steps, and how each ended."""
    from benchrun import paths
    from benchrun.errors import BenchrunError, MachineError, UserError
    from benchrun.launch.launcher import observe

    rows, readable = [], []
    found, code = each_named(runs) if runs else (runs_named((), last), 0)
    for run in found:
        try:
            run.spec  # noqa: B018
            readable.append(run)
        except UserError as error:
            say(f"left out: {error}")
            code = worst((code, error.exit_code))
    for observation in observe(readable):
        try:
            rows.append(_row(observation))
        except (BenchrunError, OSError) as error:
            say(f"left out: {observation.run.run_id}: {error}")
            code = worst((code, getattr(error, "exit_code", MachineError.exit_code)))
    if as_json:
        print_json(rows)
        return code
    if not rows:
        click.echo(f"no runs in {paths.runs_dir().absolute()}; BENCHRUN_RESULTS names another folder", err=True)
    for row in rows:
        steps = f"step {row['last_step']} of {row['planned_steps']}" if row["last_step"] else ""
        note = "; ".join(dict.fromkeys(filter(None, [*row["evidence"], row["note"]])))
        line = f"{row['run_id']}  {row['state']:<12} {steps:<16} {note}".rstrip()
        click.echo("".join(char if char.isprintable() else "?" for char in line))  # a log may hold a terminal's codes
    return code


def _row(observation: Any) -> dict[str, Any]:
    run = observation.run
    end = _end(observation) if observation.over else None
    state = observation.job.phase.value if observation.job else "unknown"
    return {
        "run_id": run.run_id,
        "state": end.ending.value if end else state,
        "ended": end is not None,
        "final": end is not None and end.final,
        "evidence": list(end.evidence) if end else [],
        "exit_code": end.exit_code if end else None,
        "job": run.job_id,
        "nodes": observation.job.nodes if observation.job else "",
        "last_step": end.last_step if end and end.last_step is not None else _last_step(run),
        "planned_steps": run.spec.training.steps,
        "quiet_s": round(observation.quiet_s, 1),
        "note": observation.note,
    }


def _end(observation: Any) -> Any:
    """How the run ended; its log is read only if nobody has classified it yet."""
    from benchrun.launch.endings import recorded
    from benchrun.launch.rundir import ENDING

    end = recorded(observation.run.read_json(ENDING))
    if end is None:
        from benchrun import flow  # it takes half a second to import

        end = flow.end_of(observation)
    return end


def _last_step(run: Any) -> int | None:
    """The last step in the end of the run's logs, or where its watchdog saw one."""
    from benchrun.frameworks.logs import last_step
    from benchrun.launch.progress import progress_of

    progress = progress_of(run)
    steps = []
    for log in run.logs:
        near = progress.step_offset if progress and progress.step_file == log.name else 0
        with contextlib.suppress(OSError):
            steps.append(last_step(log, near))
    return max((step for step in steps if step is not None), default=None)
