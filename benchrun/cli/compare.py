"""benchrun compare: the verdict."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from benchrun.cli.options import json_option, known, known_options, one_run, print_json, runs_in, say, worst
from benchrun.errors import BenchrunError, UserError


@click.command("compare")
@click.argument("runs_or_logs", nargs=-1, required=True)
@click.option("--recipe", help="With a log: the recipe it ran.")
@known_options
@click.option("--num-layers", type=click.IntRange(min=1), help="With a log of a proxy: how many layers it had.")
@click.option("--framework", help="With a log: whose it is; found out if not given.")
@click.option("--reference", metavar="ID", help="Hold it against this number, and not the one that fits best.")
@click.option("--warmup", type=click.IntRange(min=0), metavar="ROWS", help="Rows to drop; 5 or a tenth if not given.")
@json_option
def command(
    runs_or_logs: tuple[str, ...],
    warmup: int | None,
    as_json: bool,
    recipe: str | None,
    framework: str | None,
    num_layers: int | None,
    reference: str | None,
    **given: Any,
) -> int:
    """Judge RUNS (repeats of one point together), or the LOGs of one run or several, each by itself.

    A log is compared under the conditions that it states itself; the options say what it does not.
    """
    from benchrun import paths
    from benchrun.launch.rundir import open_runs

    files = [Path(name) for name in runs_or_logs]
    said = {"recipe": recipe, "framework": framework, "num_layers": num_layers, **given}
    if recipe is not None or any(file.is_file() or str(file) == "-" for file in files):
        if recipe is None:
            raise UserError("a log needs the recipe that it ran", hint="add --recipe NAME; benchrun list shows them")
        root = paths.runs_dir()
        run = next((f for f in files if any((path / "spec.json").is_file() for path in (f, root / f))), None)
        if run is not None:
            raise UserError(f"{run} is a run, which knows what it ran", hint="compare it alone, without --recipe")
        return _judge_logs(files, recipe, framework, num_layers, warmup, reference, as_json, given)
    options = [f"--{name.replace('_', '-')}" for name, value in said.items() if value is not None]
    if options:
        raise UserError(f"{' and '.join(options)}: a run knows what it ran", hint="with a log, add --recipe NAME too")
    return print_verdicts(open_runs(paths.runs_dir(), runs_or_logs), as_json, warmup, reference)


def print_verdicts(
    runs: list[Any], as_json: bool = False, warmup: int | None = None, reference: str | None = None
) -> int:
    """Judge runs, print what came out, and give the exit code."""
    from benchrun import flow

    for run in runs:
        if not run.writable:
            why = " (not one of your runs)" if run.read_only else ""
            say(f"warning: {run.path} cannot be written{why}: the verdict is only printed")
    results, errors = [], []
    groups = flow.repeats(runs)
    for group in groups:
        try:
            results.append(flow.verdict_of(group, warmup, reference, others=runs))
        except BenchrunError as error:
            if len(groups) == 1:
                raise
            say(f"error: {error}")
            errors.append(error.exit_code)
    return worst([print_results(results, as_json, several=len(groups) > 1), *errors])


def print_results(results: list[Any], as_json: bool, *, several: bool | None = None, names: Sequence[str] = ()) -> int:
    """Print verdicts with their metrics, and return the worst exit code.

    One verdict is one JSON object, ``several`` are an array. ``names``: the log of each verdict, of several.
    """
    several = bool(names) or (len(results) > 1 if several is None else several)
    if as_json:
        documents = [verdict.model_dump(mode="json") for verdict, _ in results]
        if names:
            documents = [{"file": name, **each} for name, each in zip(names, documents, strict=True)]
        print_json(documents if several else documents[0])
    else:
        from rich.console import Console
        from rich.text import Text

        from benchrun.report.terminal import verdict_view

        console = Console()
        for number, (verdict, metrics) in enumerate(results):
            if names:
                console.print(Text(names[number]), soft_wrap=True)
            console.print(verdict_view(verdict, metrics), soft_wrap=True)
    return worst(verdict.exit_code for verdict, _ in results)


def _judge_logs(
    files: list[Path],
    recipe: str,
    framework: str | None,
    num_layers: int | None,
    warmup: int | None,
    reference: str | None,
    as_json: bool,
    given: dict[str, Any],
) -> int:
    """Judge the log of each run; those that cannot be judged are the error that comes after the verdicts."""
    from benchrun import flow
    from benchrun.metrics.known import Known
    from benchrun.metrics.known import known as logged

    one_run(files)
    conditions = known(recipe, **given)
    if num_layers is not None:
        proxy = conditions.model.model_copy(update={"num_layers": num_layers})
        conditions = dataclasses.replace(conditions, model=proxy)
    logs, results, names, errors = runs_in(files, framework), [], [], []
    for log in logs:
        if None not in (num_layers, log.facts.num_layers) and num_layers != log.facts.num_layers:
            say(f"--num-layers {num_layers} is not used: {_which(log, logs)} says {log.facts.num_layers}")
        stated = logged(log, Known())
        for name, value in given.items():
            found = getattr(stated, "global_batch_size" if name == "gbs" else name)
            if None not in (value, found) and str(value).lower() != str(found).lower():
                say(f"--{name.replace('_', '-')} {value} is not used: {_which(log, logs)} says {found}")
        try:
            results.append(flow.judge_log(log, recipe, conditions, warmup, reference))
            names.append(log.file)
        except UserError as error:
            errors.append(error)
    code = print_results(results, as_json, names=names if len(logs) > 1 else ()) if results else 0
    for other in errors[:-1]:
        say(f"error: {other}")
    if errors:
        raise errors[-1]
    return code


def _which(log: Any, logs: list[Any]) -> str:
    return "the log" if len(logs) == 1 else str(log.file)
