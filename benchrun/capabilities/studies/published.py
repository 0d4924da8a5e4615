"""Every point with a published number that a site has the GPUs for, as one suite."""

import json
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import click

from benchrun import api, paths
from benchrun.cli.options import each, interrupted, print_json, say
from benchrun.errors import UserError
from benchrun.judge.choice import choose
from benchrun.judge.conditions import conditions
from benchrun.judge.references import load_references, matching
from benchrun.measure.registry import METRICS
from benchrun.recipes.catalogue import RecipeFile, points, recipe_file
from benchrun.recipes.resolve import resolve_point
from benchrun.recipes.schema import Study, SuiteRun
from benchrun.recipes.select import Request
from benchrun.recipes.study import Expanded, StudyPoint
from benchrun.runspec.spec import RunSpec
from benchrun.show.table import LINE, Table, fitted
from benchrun.usecases.listing import gpu_of, point_rows
from benchrun.vocabulary import Exit, worst

from .resolved import ResolvedPoint, ResolvedStudy
from .view import factors, filled, planned_line, study_page

NAME = "published"
"""The suite's folder of runs, whatever its GPUs: it goes on where it was left."""
CONCURRENCY = 4
STATED = ("recipe", "framework", "precision", "num_gpus", "gbs", "seq_length")
"""Columns of a point's row that name it in the suite's table."""
Row = dict[str, Any]


def plan_published(
    request: Request, max_gpus: int | None, recipes: Sequence[str] = (), repeats: int = 1
) -> ResolvedStudy:
    """The suite of every point of ``recipes`` (of all if empty) that has a published
    number for the GPU of ``request`` and at most ``max_gpus`` of them, or as many as
    ``request`` says. Each runs in the publisher's framework, or else the recipe's first,
    unless ``request`` names one.

    UserError without a GPU, and if there is no such point or none is legal.
    """
    gpu = request.gpu
    if gpu is None and request.cluster:
        gpu = gpu_of(request.cluster)
    if gpu is None:
        raise UserError("--published needs a GPU", hint="--gpu H100, or --cluster with a site file")
    size = f"{request.num_gpus or f'at most {max_gpus}'} x {gpu}"
    planned: list[ResolvedPoint] = []
    keys = set()
    for name in recipes or paths.shipped(paths.RECIPES):
        for file, row, index in _chosen(name, replace(request, gpu=gpu), max_gpus):
            new = _resolved(file, row, index, len(planned), request)
            key = new.spec.repeat_key() if new.spec else new.key
            if key not in keys:
                keys.add(key)
                planned.append(new)
    if not planned:
        raise UserError(
            f"no number is published for {size} with these options",
            hint="benchrun list shows how many numbers each recipe has",
        )
    if not any(each.spec for each in planned):
        raise UserError(f"no point is legal; the first: {planned[0].refused}")
    study = Study(
        description=f"Every published point of {size}",
        runs=tuple(SuiteRun(recipe=each.point.request.recipe) for each in planned),
        repeats=repeats,
    )
    own = tuple(each.point for each in planned)
    return ResolvedStudy(Expanded(NAME, study, own), tuple(planned))


def _chosen(
    name: str, request: Request, max_gpus: int | None
) -> Iterator[tuple[RecipeFile, Row, int]]:
    """The points of one recipe, one for each precision, number of GPUs, and batch: with
    the recipe's file, the row and the position in the file."""
    wanted = (request.gpu, request.precision, request.framework)
    rows = []
    for index, row in enumerate(point_rows((name,), None, request.cluster)):
        stated = (row["gpu"], row["precision"], row["framework"])
        pairs = zip(wanted, stated, strict=True)
        asked = all(a is None or a.lower() == b.lower() for a, b in pairs)
        fits = row["num_gpus"] <= (max_gpus or request.num_gpus)
        if request.num_gpus:
            fits = row["num_gpus"] == request.num_gpus
        if asked and row["reference"] and fits:
            rows.append((index, row))
    if not rows:
        return
    file = recipe_file(name)
    alike: dict[str, list[tuple[int, Row]]] = {}
    for index, row in rows:
        sizes = points(file.recipe)[index].group.sizes(row["num_gpus"], file.recipe)
        key = json.dumps([row["precision"], row["num_gpus"], sizes])
        alike.setdefault(key, []).append((index, row))
    for candidates in alike.values():
        theirs = _frameworks(candidates[0][1])
        own = [each for each in candidates if each[1]["framework"] in theirs]
        index, row = (own or candidates)[0]
        yield file, row, index


def _frameworks(row: Row) -> set[str]:
    """The frameworks that published a number for the point of ``row``."""
    names = ("recipe", "gpu", "precision", "num_gpus", "gbs", "seq_length")
    wanted = [row[name] for name in names]
    found = set()
    for reference in load_references():
        if [getattr(reference.key, name) for name in names] == wanted:
            found.add(str(reference.key.framework))
    return found


def _resolved(file: RecipeFile, row: Row, index: int, run: int, request: Request) -> ResolvedPoint:
    """The point of ``row`` with its run, or why it has none."""
    point = points(file.recipe)[index]
    settings = {name: row[name] for name in STATED if row[name]}
    if not row["gbs"]:
        settings["requests"] = row["settings"]
    chosen = {key: row[key] for key in ("recipe", "gpu", "precision", "num_gpus", "framework")}
    place = file.document.where(("points", point.index))
    stated = StudyPoint(run, settings, replace(request, **chosen), place)
    try:
        spec = resolve_point(file, point, request.cluster, request.overrides)
    except UserError as error:
        return ResolvedPoint(stated, None, error.message, error.hint)
    return ResolvedPoint(stated, spec)


def list_published(
    request: Request, max_gpus: int | None, recipes: Sequence[str], *, as_json: bool = False
) -> Exit:
    """Print the points, their published numbers and their GPU-hours; launch nothing."""
    planned = plan_published(request, max_gpus, recipes)
    result = api.study_result(planned)
    if as_json:
        print_json(result.model_dump(mode="json"))
        return Exit.OK
    titles = ("point", *result.columns, "tokens/s/GPU", "GPU-hours", "note")
    rows = []
    for number, (point, own) in enumerate(zip(result.points, planned.points, strict=True), 1):
        hours = point.hours.limit if point.hours else None
        speed = _speed(own.spec) if own.spec else None
        rows.append(
            [number, *factors(point, result.columns, None), speed, hours, own.refused or None]
        )
    table = fitted(filled(Table(titles, rows)), LINE)
    click.echo(
        f"{result.description}, tokens/s/GPU as published\n\n{table}\n{planned_line(result)}"
    )
    for recipe in recipes or ("",):
        say(f"next: {_command(recipe, request, max_gpus)}")
    return Exit.OK


def _speed(spec: RunSpec) -> str | None:
    """The published number with which a run is compared, with another unit than
    tokens/s/GPU.
    """
    own = conditions(spec)
    best = choose(matching(own, load_references()), own)
    if best is None:
        return None
    if best.tokens_per_s_per_gpu:
        return f"{best.tokens_per_s_per_gpu:,.0f}"
    return f"{best.value:,.5g} {METRICS[best.metric].unit}".removesuffix(" tokens/s/GPU")


def _command(recipe: str, request: Request, max_gpus: int | None) -> str:
    """The command that launches the points of ``recipe``."""
    options: Row = {"--gpu": request.gpu, "--precision": request.precision}
    options |= {"--framework": request.framework, "--cluster": request.cluster}
    options |= {"--max-gpus": max_gpus, "--num-gpus": request.num_gpus}
    words = ["benchrun", "launch", *filter(None, [recipe]), "--published"]
    for name, value in options.items():
        words += [name, str(value)] if value else []
    for override in request.overrides:
        words += ["--set", override]
    return shlex.join(words)


def launch_published(
    request: Request, max_gpus: int | None, recipes: Sequence[str], repeats: int, retries: int
) -> Exit:
    """Say the GPU-hours, run the suite, print it as a table and with the verdict of each
    point; the exit code is the worst verdict's.
    """
    planned = plan_published(request, max_gpus, recipes, repeats)
    say(planned_line(api.study_result(planned)))
    try:
        api.run_study(planned, CONCURRENCY, retries, tell=say)
    except KeyboardInterrupt:
        return interrupted("suite")
    result = api.study_result(planned, retries=retries)
    click.echo(study_page(result, "plain"))

    def judge(group: Sequence[api.RunDir]) -> Exit:
        judgement = api.judge_runs(group)
        api.store_judgement(judgement)
        click.echo(f"{group[0].run_id}: {judgement.verdict.headline}")
        return judgement.verdict.exit_code

    groups = api.repeats(api.study_runs(planned))
    codes, code = each(groups, judge, lambda group: group[0].run_id)
    say("next: benchrun report --output report.html")
    if not result.complete:
        code = worst((code, Exit.INCONCLUSIVE))
    return worst((code, *codes))
