"""Recipe x GPU x precision x number of GPUs x framework x cluster -> one RunSpec with nothing implicit."""

from __future__ import annotations

from benchrun import hardware
from benchrun.errors import UserError
from benchrun.frameworks.megatron_config import configured
from benchrun.recipe import catalogue
from benchrun.recipe.catalogue import Point, RecipeFile
from benchrun.recipe.checked import closest
from benchrun.recipe.draft import Draft, draft
from benchrun.recipe.environment import framework_env
from benchrun.recipe.layout import CHANGE_LAYOUT, Refusal, data_parallel, refusals
from benchrun.recipe.memory import impossible
from benchrun.recipe.proxy import reductions
from benchrun.recipe.select import Request, instead, select
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
    planned = draft(file, point, profile, overrides)
    where = file.document.where(("points", point.index))
    _same_gpu(planned, point)
    broken = refusals(planned, point.num_gpus, point.precision, point.framework, file.recipe.task)
    if not broken:
        spec = _spec(file, point, planned)
        too_large = impossible(spec)
        if too_large is None:
            return spec
        broken = [Refusal(too_large, CHANGE_LAYOUT)]
    hints = dict.fromkeys(hint for text in broken if (hint := getattr(text, "hint", None)))
    if CHANGE_LAYOUT in hints and point.scaled_from is not None:
        took = f"{point.num_gpus} GPUs took over the layout of {point.scaled_from}; {instead(file, point)}"
        hints = {took if hint == CHANGE_LAYOUT else hint: None for hint in hints}
    raise UserError("; ".join(broken), where=where, hint="; ".join(hints) or None)


def _same_gpu(planned: Draft, point: Point) -> None:
    theirs = planned.cluster.gpu
    if theirs != point.gpu:
        hint = f"choose --gpu {theirs}, or a --cluster with {point.gpu}"
        if theirs not in (listed := [*hardware.names(), "CPU"]):
            hint = f"its gpu is none that is listed; {closest(theirs.upper(), listed)}"
        raise UserError(f"cluster {planned.cluster.name} has {theirs}, the point is for {point.gpu}", hint=hint)


def _spec(file: RecipeFile, point: Point, planned: Draft) -> RunSpec:
    dp = data_parallel(planned, point.num_gpus)
    own = framework_env(point.framework, point.gpu, planned.layout, point.precision, planned.training) | planned.env
    sites = planned.cluster.env
    reduced = reductions(planned.model, file.recipe.model)
    spec = RunSpec(
        recipe=file.name,
        task=file.recipe.task,
        proxy=bool(reduced),
        reduced=reduced,
        source=point.group.source if point.scaled_from is None else None,
        derived=point.derived,
        framework=point.framework,
        image=planned.image,
        replaced_image=planned.replaced_image,
        gpu=point.gpu,
        precision=point.precision,
        num_gpus=point.num_gpus,
        num_nodes=-(-point.num_gpus // planned.cluster.gpus_per_node),
        seq_length=planned.seq_length,
        mbs=planned.mbs,
        gbs=planned.gbs,
        dp=dp,
        num_microbatches=planned.gbs // (planned.mbs * dp),
        model=planned.model,
        layout=planned.layout,
        training=planned.training,
        data=_data(planned),
        env={**own, **sites},
        replaced_env={name: value for name, value in own.items() if name in sites},
        cluster=planned.cluster,
    )
    return configured(spec)


def _data(planned: Draft) -> Data:
    """With the size of a synthetic data set stated: one token more than the run reads, the last label."""
    data = planned.data
    if data.kind == "mock" or data.synthetic.tokens is not None:
        return data
    tokens = planned.training.steps * planned.gbs * planned.seq_length + 1
    return data.model_copy(update={"synthetic": data.synthetic.model_copy(update={"tokens": tokens})})
