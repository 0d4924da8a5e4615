"""benchrun compare: the verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from benchrun import app, paths
from benchrun.cli.options import (
    flags,
    json_option,
    log_framework_option,
    print_json,
    print_views,
    read_logs,
    say,
    setting_options,
    warmup_option,
)
from benchrun.errors import BenchrunError, UserError
from benchrun.spec.artifacts import SPEC
from benchrun.vocabulary import Exit, worst

if TYPE_CHECKING:
    from benchrun.app import Metrics, RunDir, Verdict


@click.command("compare")
@click.argument("runs_or_logs", nargs=-1, required=True)
@click.option("--recipe", help="With a log: the recipe it ran.")
@setting_options
@click.option("--num-layers", type=click.IntRange(min=1), help="With a log of a proxy: how many layers it had.")
@log_framework_option
@click.option("--reference", metavar="ID", help="Compare with this reference instead of the best match.")
@warmup_option
@json_option
def command(
    runs_or_logs: tuple[str, ...],
    warmup: int | None,
    as_json: bool,
    recipe: str | None,
    framework: str | None,
    reference: str | None,
    **given: Any,
) -> int:
    """Judge RUNS (repeats of one point together), or the LOGs of one run or several, each by itself.

    A log is compared under the conditions that it states itself; the options say what it does not.
    """
    files = [Path(name) for name in runs_or_logs]
    if recipe is None and not any(file.is_file() or str(file) == "-" for file in files):
        options = {"recipe": recipe, "framework": framework, "num_layers": given.pop("num_layers"), **given}
        if named := [name for name, value in options.items() if value is not None]:
            raise UserError(f"{flags(named)}: a run knows what it ran", hint="with a log, add --recipe NAME too")
        return print_verdicts(app.open_runs(runs_or_logs), as_json, warmup, reference)
    if recipe is None:
        raise UserError("a log needs the recipe that it ran", hint="add --recipe NAME; benchrun list shows them")
    root = paths.runs_dir()
    run = next((f for f in files if any((path / SPEC).is_file() for path in (f, root / f))), None)
    if run is not None:
        raise UserError(f"{run} is a run, which knows what it ran", hint="compare it alone, without --recipe")
    return _judge_logs(files, recipe, framework, given, warmup, reference, as_json)


def print_verdicts(
    runs: Sequence[RunDir], as_json: bool = False, warmup: int | None = None, reference: str | None = None
) -> Exit:
    """Judge runs, store and print the verdicts, and return the exit code."""
    for run in runs:
        if not run.writable:
            why = " (not one of your runs)" if run.read_only else ""
            say(f"warning: {run.path} cannot be written{why}: the verdict is only printed")
    results, codes = [], []
    groups = app.repeats(runs)
    for group in groups:
        try:
            judgement = app.judge_runs(group, warmup, reference, others=runs)
            app.store_judgement(judgement)
        except BenchrunError as error:
            if len(groups) == 1:
                raise
            say(f"error: {error}")
            codes.append(error.exit_code)
        else:
            results.append((judgement.verdict, judgement.metrics))
    return worst([print_results(results, as_json, several=len(groups) > 1), *codes])


def print_results(
    results: Sequence[tuple[Verdict, Metrics | None]],
    as_json: bool,
    *,
    several: bool = False,
    names: Sequence[str] = (),
) -> Exit:
    """Print verdicts with their metrics, and return the worst exit code.

    One verdict is one JSON object, ``several`` are an array. ``names`` has the log of each verdict, if several.
    """
    if as_json:
        documents = [verdict.model_dump(mode="json") for verdict, _ in results]
        if names:
            documents = [{"file": name, **document} for name, document in zip(names, documents, strict=True)]
        print_json(documents if several else documents[0])
    else:
        from rich.text import Text

        from benchrun.report.terminal import verdict_view

        for number, result in enumerate(results):
            print_views(*map(Text, names[number : number + 1]), verdict_view(*result))
    return worst(verdict.exit_code for verdict, _ in results)


def _judge_logs(
    files: Sequence[Path],
    recipe: str,
    framework: str | None,
    given: dict[str, Any],
    warmup: int | None,
    reference: str | None,
    as_json: bool,
) -> Exit:
    """Judge each run's log; the errors of those that cannot be judged follow the verdicts."""
    options = {name: value for name, value in given.items() if name != "num_layers"}
    setting = app.setting(recipe, **options)
    if given["num_layers"] is not None and setting.model:
        setting = replace(setting, model=setting.model.model_copy(update={"num_layers": given["num_layers"]}))
    logs, results, names, errors = read_logs(files, framework), [], [], []
    for log in logs:
        which = "the log" if len(logs) == 1 else log.file
        for name, (value, own) in app.unused_options(log, given).items():
            say(f"{flags([name])} {value} is not used: {which} says {own}")
        try:
            results.append(app.judge_log(log, recipe, setting, warmup, reference))
            names.append(log.file)
        except UserError as error:
            errors.append(error)
    several = len(logs) > 1
    code = print_results(results, as_json, several=several, names=names if several else ()) if results else Exit.OK
    for other in errors[:-1]:
        say(f"error: {other}")
    if errors:
        raise errors[-1]
    return code
