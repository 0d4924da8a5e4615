"""Recipe x GPU x precision x number of GPUs x framework x cluster -> one RunSpec with nothing implicit."""

from __future__ import annotations

from benchrun import hardware
from benchrun.errors import UserError, closest
from benchrun.frameworks.base import Framework
from benchrun.frameworks.registry import framework
from benchrun.recipe import catalogue
from benchrun.recipe.catalogue import Point, RecipeFile
from benchrun.recipe.draft import Draft, draft
from benchrun.recipe.images import image_of_run
from benchrun.recipe.layout import CHANGE_LAYOUT, Refusal, refusals
from benchrun.recipe.memory import impossible
from benchrun.recipe.proxy import reductions
from benchrun.recipe.select import Request, instead, select
from benchrun.recipe.yamlfile import Document
from benchrun.spec.data import Data
from benchrun.spec.runspec import RunSpec


def resolve(request: Request) -> RunSpec:
    """The RunSpec that ``request`` names. UserError says which rule it breaks, with numbers and a legal value."""
    file = catalogue.recipe_file(request.recipe)
    point = select(file, request)
    return resolve_point(file, point, request.cluster, request.overrides)


def resolve_point(
    file: RecipeFile, point: Point, cluster: str | None = None, overrides: tuple[str, ...] = ()
) -> RunSpec:
    """The RunSpec of one point."""
    profile = catalogue.cluster_document(cluster or catalogue.default_cluster(point.gpu))
    planned, document = draft(file, point, profile, overrides)
    _same_gpu(planned, point)
    launched = framework(point.framework)
    spec = _with_environment(_spec(file, point, planned, document, launched), planned.env, document)
    broken = refusals(spec, launched)
    if not broken:
        too_large = impossible(spec)
        if too_large is None:
            return spec
        broken = [Refusal(too_large, CHANGE_LAYOUT)]
    hints = dict.fromkeys(hint for text in broken if (hint := getattr(text, "hint", None)))
    if CHANGE_LAYOUT in hints and point.scaled_from is not None:
        took = f"{point.num_gpus} GPUs took over the layout of {point.scaled_from}; {instead(file, point)}"
        hints = {took if hint == CHANGE_LAYOUT else hint: None for hint in hints}
    where = file.document.where(("points", point.index))
    raise UserError("; ".join(broken), where=where, hint="; ".join(hints) or None)


def _same_gpu(planned: Draft, point: Point) -> None:
    theirs = planned.cluster.gpu
    if theirs != point.gpu:
        hint = f"choose --gpu {theirs}, or a --cluster with {point.gpu}"
        if theirs not in (listed := [*hardware.names(), "CPU"]):
            hint = f"its gpu is none that is listed; {closest(theirs.upper(), listed)}"
        raise UserError(f"cluster {planned.cluster.name} has {theirs}, the point is for {point.gpu}", hint=hint)


def _spec(file: RecipeFile, point: Point, planned: Draft, document: Document, launched: Framework) -> RunSpec:
    """The run, its environment apart. Where the layout leaves no data-parallel rank, dp is 1: the rules refuse that."""
    image = image_of_run(planned.cluster, launched, planned.image, document)
    dp = max(1, point.num_gpus // (planned.layout.tp * planned.layout.pp * planned.layout.cp))
    reduced = reductions(planned.model, file.recipe.model)
    return RunSpec(
        recipe=file.name,
        task=file.recipe.task,
        proxy=bool(reduced),
        reduced=reduced,
        source=point.group.source if point.scaled_from is None else None,
        derived=point.derived,
        framework=point.framework,
        image=image,
        replaced_image=planned.image if launched.site_image(planned.cluster) else None,
        gpu=point.gpu,
        precision=point.precision,
        num_gpus=point.num_gpus,
        num_nodes=-(-point.num_gpus // planned.cluster.gpus_per_node),
        seq_length=planned.seq_length,
        mbs=planned.mbs,
        gbs=planned.gbs,
        dp=dp,
        num_microbatches=max(1, planned.gbs // (planned.mbs * dp)),
        model=planned.model,
        layout=planned.layout,
        training=planned.training,
        data=_data(planned),
        data_format=launched.data_format(file.recipe.task),
        cluster=planned.cluster,
    )


def _with_environment(spec: RunSpec, recipes: dict[str, str], document: Document) -> RunSpec:
    """The variables of the framework, the recipe and the site. UserError where null should remove the framework's."""
    framework_env = {name: variable.value for name, variable in framework(spec.framework).environment(spec).items()}
    sites = spec.cluster.env
    for loc, where in document.places.items():
        if loc[-2:-1] == ("env",) and loc[-1] in framework_env and loc[-1] not in {**recipes, **sites}:
            hint = "benchrun sets it for the framework: it can be given another value, but not removed"
            raise UserError(f"no variable {'.'.join(map(str, loc))}: null removes nothing", hint=hint, where=where)
    own = framework_env | recipes
    replaced = {name: value for name, value in own.items() if name in sites}
    return spec.model_copy(update={"env": own | sites, "replaced_env": replaced})


def _data(planned: Draft) -> Data:
    """With the size of a synthetic data set stated: one token more than the run reads, the last label."""
    data = planned.data
    if data.kind == "mock" or data.synthetic.tokens is not None:
        return data
    tokens = planned.training.steps * planned.gbs * planned.seq_length + 1
    return data.model_copy(update={"synthetic": data.synthetic.model_copy(update={"tokens": tokens})})
