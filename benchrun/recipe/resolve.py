"""Recipe x GPU x precision x number of GPUs x framework x cluster -> one RunSpec with nothing implicit."""

from __future__ import annotations

from benchrun import hardware
from benchrun.errors import UserError, closest
from benchrun.frameworks.base import Framework
from benchrun.frameworks.registry import framework
from benchrun.recipe import catalogue
from benchrun.recipe.catalogue import Point, RecipeFile
from benchrun.recipe.draft import draft
from benchrun.recipe.files import cluster_document, default_cluster
from benchrun.recipe.images import image_of_run
from benchrun.recipe.layout import CHANGE_LAYOUT, refusals
from benchrun.recipe.select import Request, listed_counts, select
from benchrun.recipe.yamlfile import Document
from benchrun.spec.runspec import Inputs, RunSpec, workload


def resolve(request: Request) -> RunSpec:
    """The RunSpec that ``request`` names. UserError names the rule that it breaks, with numbers and a legal value."""
    file = catalogue.recipe_file(request.recipe)
    point = select(file, request)
    return resolve_point(file, point, request.cluster, request.overrides)


def resolve_point(
    file: RecipeFile, point: Point, cluster: str | None = None, overrides: tuple[str, ...] = ()
) -> RunSpec:
    """The RunSpec of one point."""
    profile = cluster_document(cluster or default_cluster(point.gpu))
    inputs, document = draft(file, point, profile, overrides)
    _same_gpu(inputs, point)
    launched = framework(point.framework)
    spec = _with_environment(_spec(file, point, inputs, document, launched), launched, document)
    broken = refusals(spec, launched)
    if not broken:
        return launched.configured(spec)  # type: ignore[no-any-return]
    hints = dict.fromkeys(filter(None, broken.values()))
    if CHANGE_LAYOUT in hints and point.scaled_from is not None:
        origin = f"the layout on {point.num_gpus} GPUs is that of {point.scaled_from}; {listed_counts(file, point)}"
        hints = {origin if hint == CHANGE_LAYOUT else hint: None for hint in hints}
    where = file.document.where(("points", point.index))
    raise UserError("; ".join(broken), where=where, hint="; ".join(hints) or None)


def _same_gpu(inputs: Inputs, point: Point) -> None:
    gpu = inputs.cluster.gpu
    if gpu != point.gpu:
        hint = f"choose --gpu {gpu}, or a --cluster with {point.gpu}"
        if gpu not in (listed := [*hardware.names(), "CPU"]):
            hint = f"the hardware table has no such GPU; {closest(gpu.upper(), listed)}"
        raise UserError(f"cluster {inputs.cluster.name} has {gpu}, the point is for {point.gpu}", hint=hint)


def _spec(file: RecipeFile, point: Point, inputs: Inputs, document: Document, launched: Framework) -> RunSpec:
    """The run with the recipe's environment only."""
    stated = {
        "workload": file.recipe.workload,
        "recipe": file.name,
        "task": file.recipe.task,
        "source": point.group.source if point.scaled_from is None else None,
        "derived": point.derived,
        "framework": point.framework,
        "gpu": point.gpu,
        "precision": point.precision,
        "num_gpus": point.num_gpus,
        "num_nodes": -(-point.num_gpus // inputs.cluster.gpus_per_node),
        "replaced_image": inputs.image if launched.site_image(inputs.cluster) else None,
        **dict(inputs),
        "image": image_of_run(inputs.cluster, launched, inputs.image, document),
    }
    return workload(file.recipe.workload).planned(stated, file.recipe, launched)


def _with_environment(spec: RunSpec, launched: Framework, document: Document) -> RunSpec:
    """``spec`` with the framework's and the site's variables. UserError if null is set for one of the framework's."""
    variables = {name: variable.value for name, variable in launched.environment(spec).items()}
    site = spec.cluster.env
    for section in (document.get("env", Document()), document["cluster"].get("env", Document())):
        for name, where in section.places.items():
            if name in variables and name not in {**spec.env, **site}:
                hint = "benchrun sets it for the framework: it can have another value, but it cannot be removed"
                raise UserError(f"{name} cannot be null", hint=hint, where=where)
    variables |= spec.env
    replaced = {name: value for name, value in variables.items() if name in site}
    return spec.model_copy(update={"env": variables | site, "replaced_env": replaced})
