"""Requests to RunSpecs, and RunSpecs to files."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchrun.errors import UserError, writing
from benchrun.frameworks.registry import framework
from benchrun.jobs import create
from benchrun.judge.choice import of_point
from benchrun.judge.conditions import conditions
from benchrun.judge.references import load_references, matching
from benchrun.memory import estimate, warning
from benchrun.model.flops import flops_per_token
from benchrun.recipes import catalogue
from benchrun.recipes import resolve as resolving
from benchrun.recipes.arithmetic import arithmetic
from benchrun.recipes.capability import WITHOUT_PROFILER
from benchrun.recipes.images import missing_scripts
from benchrun.recipes.layout import slow_links
from benchrun.recipes.select import Request
from benchrun.recipes.study import StudyPoint, expand
from benchrun.render import render
from benchrun.runspec.spec import RunSpec, TrainingSpec
from benchrun.vocabulary import Reduced

from .expectations import expected_step

resolve_point = resolving.resolve


def curve_point(request: Request, num_gpus: Sequence[int]) -> RunSpec:
    """Return the run that a curve over ``num_gpus`` starts from: the smallest of the
    whole model.

    UserError if all are proxies that nobody asked for: a smaller model would stand for
    the whole one.
    """
    specs = []
    errors = []
    for number in num_gpus or (None,):
        try:
            specs.append(resolve_point(replace(request, num_gpus=number)))
        except UserError as error:
            errors.append(error)
    if not specs:
        raise errors[0]
    asked = any(override.startswith("model.") for override in request.overrides)
    whole = [spec for spec in specs if asked or not _reduced(spec)]
    if not whole:
        smaller = ""
        for each in _reduced(specs[0]):
            smaller += f" --set model.{each.name}={json.dumps(each.size)}"
        raise UserError(
            f"{request.recipe} has no point of the whole model on these GPUs",
            hint=f"name more GPUs (benchrun list {request.recipe}), or ask for the proxy:{smaller}",
        )
    return whole[0]


def _reduced(spec: RunSpec) -> Sequence[Reduced]:
    if not isinstance(spec, TrainingSpec):
        return ()
    return spec.reduced


def resolve_shown(request: Request) -> RunSpec:
    """The run of a point that is looked at and not launched: its site need not state
    where scripts are.
    """
    return resolve_point(request, to_launch=False)


def resolve(request: Request) -> list[RunSpec]:
    """The run of a point, or every run of the suite or study of that name.

    UserError for a point that does not exist or breaks a rule; of a suite it names the
    run.
    """
    if not catalogue.is_suite(request.recipe):
        return [resolve_point(request)]
    points, repeats = resolve_each(request)
    specs = []
    for index, (point, spec) in enumerate(points):
        if isinstance(spec, UserError):
            place = ""
            if spec.where:
                place = f"{spec.where}: "
            message = (
                f"run {index + 1} of {len(points)} ({point.request.recipe}): {place}{spec.message}"
            )
            raise UserError(message, hint=spec.hint, where=point.place, others=spec.others)
        specs += [spec] * repeats
    return specs


def resolve_each(request: Request) -> tuple[list[tuple[StudyPoint, RunSpec | UserError]], int]:
    """Each point of a suite or study with its run, or why it is illegal; and the number
    of repeats.
    """
    expanded = expand(request)
    points: list[tuple[StudyPoint, RunSpec | UserError]] = []
    for point in expanded.points:
        try:
            points.append((point, resolve_point(point.request)))
        except UserError as error:
            points.append((point, error))
    return points, expanded.study.repeats


def resolve_profiled(request: Request, tool: str | None = None) -> list[RunSpec]:
    """Resolve with profiled steps in every run: by ``tool``, else by the recipe's, else
    by Kineto.
    """
    if tool is not None:
        return resolve(profiled(request, tool))
    try:
        specs = resolve(request)
        if all(spec.profiler != "none" for spec in specs):
            return specs
    except UserError as error:
        if WITHOUT_PROFILER not in error.message:
            raise
    return resolve(profiled(request, "kineto"))


def profiled(request: Request, tool: str) -> Request:
    """``request`` with profiled steps by ``tool`` in every run."""
    return replace(request, overrides=(*request.overrides, f"profile.tool={tool}"))


def describe(spec: RunSpec) -> dict[str, Any]:
    """spec.json with what follows from it: parameters, FLOPs per token, arithmetic,
    memory in GiB, references (the point's own first, then the newest).
    """
    document = spec.document()
    if isinstance(spec, TrainingSpec):
        flops = flops_per_token(spec.model, spec.seq_length, task=spec.task)
        document["model"] |= {
            "params_total": spec.model.params_total,
            "params_active": spec.model.params_active,
        }
        document |= {
            "flops_per_token": {"full": flops.full, "causal": flops.causal},
            "arithmetic": arithmetic(spec),
            "memory_gib": estimate(spec).parts(),
            "memory_warning": warning(spec),
            "layout_warning": slow_links(spec),
        }
    document["launch_warning"] = missing_scripts(spec.cluster, framework(spec.framework))
    expected = expected_step(spec)
    if expected is not None:
        document["expected_step_time_s"] = {
            "median": expected.median,
            "low": expected.low,
            "high": expected.high,
        }
    own = conditions(spec)
    references = matching(own, load_references())
    measured = of_point(own, references)
    references.sort(key=lambda entry: (entry is measured, entry.source.date), reverse=True)
    return document | {"references": [entry.document() for entry in references]}


def write_files(folder: Path, spec: RunSpec) -> list[str]:
    """Write everything that the job of ``spec`` needs into ``folder``; returns the file
    names.

    UserError if a file exists or cannot be written.
    """
    files = render(spec)
    with writing(folder):
        create.write_files(folder, spec, files)
    return sorted(files)
