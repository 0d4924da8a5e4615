"""Recipe x GPU x precision x number of GPUs x framework x cluster -> one RunSpec with
nothing implicit.

Recipe, framework, point, cluster and ``--set`` are merged in this order and then
checked. Mappings merge key by key; any other value replaces the earlier one; null
removes it, so that the default applies. A recompute granularity other than full also
removes the recipe's method and number of layers.
"""

import contextlib
import re
from collections.abc import Iterable
from dataclasses import replace

from pydantic import ValidationError

from benchrun import hardware
from benchrun.errors import UserError, closest
from benchrun.frameworks.base import Framework
from benchrun.frameworks.registry import framework
from benchrun.runspec.spec import Inputs, NodesInputs, NodesSpec, RunSpec, workload

from . import catalogue
from .catalogue import Point, RecipeFile, belongs, checked, explained, fields
from .files import cluster_document, default_cluster
from .images import image_of_run, is_of_nemo, missing_scripts
from .layout import CHANGE_LAYOUT, refusals
from .schema import FrameworkEntry, PointGroup, Recipe, TrainingGroup
from .select import KEYS, Request, listed_counts, select
from .yamlfile import Document, Loc, parse, scalar

NODE_CHECK = "node-check"
"""The program that a check of nodes runs."""
NODES_TIME_LIMIT = "00:10:00"
"""A check takes a minute or two; with a short limit it starts sooner."""
NODES_IMAGE = "nvcr.io/nvidia/nemo:25.07.01"
"""The image of most recipes: a site that runs one of them has it."""

_KEY = re.compile(r"\b[a-z_]+(?:\.[a-z0-9_]+)+\b")
"""The key of a value of a run, e.g. ``profile.tool``."""


def resolve(request: Request, *, to_launch: bool = True) -> RunSpec:
    """The RunSpec that ``request`` names. UserError names the rule that it breaks, with
    numbers and a legal value.

    Without ``to_launch`` the site need not state what only a launch needs: see
    `recipes.images.missing_scripts`.
    """
    file = catalogue.recipe_file(request.recipe)
    if request.gpu is None and request.cluster:
        request = replace(request, gpu=cluster_document(request.cluster).get("gpu"))
    point = select(file, request)
    if image := _newer_image(point, request):
        overrides = (*request.overrides, f"image={image}")
        with contextlib.suppress(UserError):  # its release lacks what the recipe needs
            return resolve_point(file, point, request.cluster, overrides, to_launch=to_launch)
    return resolve_point(file, point, request.cluster, request.overrides, to_launch=to_launch)


def _newer_image(point: Point, request: Request) -> str | None:
    """The image of a newer release than the recipe's; None if the user names no
    framework, or an image, or the site does."""
    if not request.framework or "image=" in str(request.overrides):
        return None
    site = cluster_document(request.cluster or default_cluster(point.gpu)).get("container") or {}
    return None if {"image", "images"} & {*site} else framework(point.framework).newest


def resolve_point(
    file: RecipeFile,
    point: Point,
    cluster: str | None = None,
    overrides: tuple[str, ...] = (),
    *,
    to_launch: bool = True,
) -> RunSpec:
    """The RunSpec of one point. UserError as `resolve`."""
    spec, document = drafted(file, point, cluster, overrides, to_launch=to_launch)
    launched = framework(point.framework)
    broken = refusals(spec, launched)
    if not broken:
        return launched.configured(spec)  # type: ignore[no-any-return]
    hints = dict.fromkeys(filter(None, broken.values()))
    if CHANGE_LAYOUT in hints and point.scaled_from is not None:
        origin = f"the layout on {point.num_gpus} GPUs is that of {point.scaled_from}; {listed_counts(file, point)}"
        hints = {origin if hint == CHANGE_LAYOUT else hint: None for hint in hints}
    where = _named_place(broken, document) or file.document.where(("points", point.index))
    raise UserError("; ".join(broken), where=where, hint="; ".join(hints) or None)


def drafted(
    file: RecipeFile,
    point: Point,
    cluster: str | None = None,
    overrides: tuple[str, ...] = (),
    *,
    to_launch: bool = True,
) -> tuple[RunSpec, Document]:
    """The run of one point, whatever rule it breaks, and the document of its inputs."""
    profile = cluster_document(cluster or default_cluster(point.gpu))
    inputs, document = _draft(file, point, profile, overrides)
    _same_gpu(inputs, point)
    launched = framework(point.framework)
    changes = _changes(file, point, profile, overrides, inputs)
    if to_launch and (missing := missing_scripts(inputs.cluster, launched)):
        hint = f"--set cluster.frameworks.{launched.name}.path=DIR; images have them in {launched.scripts}"
        raise UserError(
            missing, hint=hint, where=document.where(("cluster", "container", "runtime"))
        )
    spec = _spec(file, point, inputs, document, launched)
    if changes:
        origin = spec.derived or spec.source or "this recipe"
        spec = spec.model_copy(update={"derived": f"{changes}; otherwise as in: {origin}"})
    return _with_environment(spec, launched, document), document


def _named_place(broken: Iterable[str], document: Document) -> str | None:
    """Place of the first value that these rules name by its key; None if they name none
    that is stated.
    """
    keys = (tuple(key.split(".")) for text in broken for key in _KEY.findall(text))
    return next((place for key in keys if (place := document.stated(key))), None)


def resolve_nodes(cluster: str, num_nodes: int, overrides: tuple[str, ...] = ()) -> NodesSpec:
    """A check of ``num_nodes`` nodes of ``cluster``, with every rank that a node has."""
    document, launched = Document(), framework(NODE_CHECK)
    document.put(("cluster",), cluster_document(cluster), cluster)
    document.put(("cluster", "time_limit"), NODES_TIME_LIMIT, "the limit of a check of nodes")
    for override in overrides:
        _override(document, override, NodesInputs)
    _drop(document, NodesInputs)
    inputs = checked(NodesInputs, document)
    profile, images = inputs.cluster, inputs.cluster.container.images
    of_nemo = next((image for name, image in images.items() if is_of_nemo(name)), None)
    image = inputs.image or launched.site_image(profile, None) or of_nemo  # all of these have torch
    if profile.container.runtime != "none":
        image = image or NODES_IMAGE
    spec = NodesSpec(
        workload="nodes",
        recipe="nodes",
        task="check",
        framework=launched.name,
        gpu=profile.gpu,
        precision="fp32" if profile.gpu == "CPU" else "bf16",
        num_gpus=num_nodes * profile.gpus_per_node,
        num_nodes=num_nodes,
        **{**dict(inputs), "image": image},
    )
    return _with_environment(spec, launched, document)  # type: ignore[return-value]


def _draft(
    file: RecipeFile, point: Point, cluster: Document, overrides: tuple[str, ...]
) -> tuple[Inputs, Document]:
    """The checked inputs, and their document with the place of each value: file:line,
    or the ``--set``.
    """
    source, inputs = file.document, workload(file.recipe.workload).inputs
    merged = Document(source.place)
    entry, group = source["frameworks"][point.framework], source["points"][point.index]
    computed = point.group.inputs(point.num_gpus)
    for level, stated in ((Recipe, source), (FrameworkEntry, entry), (PointGroup, group)):
        for key, value in stated.items():
            if key not in level.model_fields and value is not None:
                target, at_this_size = (
                    computed.get(key, ((key,), value)) if stated is group else ((key,), value)
                )
                merged.put(target, at_this_size, stated.places[key])
    for key, stated in (("image", entry), ("image", group), ("env", entry), ("env", source)):
        if key in stated:
            merged.put((key,), stated[key], stated.places[key])
    merged.put(("cluster",), cluster, cluster.place)
    per_node, borrowed = cluster.get("gpus_per_node"), point.borrowed_from and "training" in merged
    wide = (
        isinstance(point.group, TrainingGroup)
        and isinstance(per_node, int)
        and point.group.layout.tp > per_node
    )
    if borrowed and wide:
        overlap = ("training", "tp_comm_overlap")
        merged.put(
            overlap,
            False,
            f"the nodes of {point.gpu}, which are smaller than those of {point.borrowed_from}",
        )
    if inputs.time_limit and "time_limit" not in cluster:
        merged.put(
            ("cluster", "time_limit"), inputs.time_limit, f"the limit of a {file.recipe.workload}"
        )
    for override in overrides:
        _override(merged, override, inputs)
    _drop(merged, inputs)
    return checked(inputs, merged), merged


def _changes(
    file: RecipeFile, point: Point, cluster: Document, overrides: tuple[str, ...], inputs: Inputs
) -> str:
    """The overrides that give the point another layout or batch; empty if none does."""
    texts = [text for text in overrides if re.match(r"(layout|mbs|gbs)\b", text)]
    if not texts:
        return ""
    tuned = None
    with contextlib.suppress(UserError):  # the values of the point may be wrong by themselves
        tuned, _ = _draft(
            file, point, cluster, tuple(text for text in overrides if text not in texts)
        )
    same = all(
        getattr(tuned, key, None) == getattr(inputs, key, None) for key in ("layout", "mbs", "gbs")
    )
    return "" if same else " ".join(f"--set {' '.join(text.split())}" for text in texts)


def _override(merged: Document, text: str, inputs: type[Inputs]) -> None:
    """Apply one ``a.b=value``. Lists, mappings and quoted values are YAML, anything
    else a scalar or text.
    """
    key, equals, value = text.partition("=")
    loc, place = tuple(key.split(".")), f"--set {text}"
    if not equals or not all(loc):
        raise UserError(f"{place}: expected key=value", hint="for example --set training.steps=20")
    if loc[0] not in inputs.model_fields:
        option = f"it is an option: --{key.replace('_', '-')} {value}" if key in KEYS else None
        hint = option or belongs(inputs, loc[0]) or closest(loc[0], inputs.model_fields)
        raise UserError(f"{place}: unknown key '{loc[0]}'", hint=hint)
    as_yaml = value[:1] in ("[", "{", '"', "'")
    try:
        given = parse(f"value: {value}", place, lines=False)["value"] if as_yaml else scalar(value)
    except UserError as error:
        raise UserError(error.message, hint=error.hint, where=place) from None
    if given == {}:
        raise UserError(
            f"{place}: an empty mapping changes nothing", hint=f"{key}=null removes the value"
        )
    merged.put(loc, given, place)


def _drop(document: Document, inputs: type[Inputs], loc: Loc = ()) -> None:
    """Remove every null, except a switch's, and keys that the inputs cannot have, which
    are refused afterwards.
    """
    stated = {key for key, place in document.places.items() if place.startswith("--set")}
    if (
        loc == ("training", "recompute")
        and "granularity" in stated
        and document["granularity"] != "full"
    ):
        for key in {"method", "num_layers"} - stated:
            document.pop(key, None)
    if loc == ("training", "switches"):
        return  # null is a value there
    legal = fields(inputs, loc)
    for key, value in list(document.items()):
        if isinstance(value, Document):
            _drop(value, inputs, (*loc, key))
        elif value is None and (not legal or key in legal):
            del document[key]


def _same_gpu(inputs: Inputs, point: Point) -> None:
    gpu = inputs.cluster.gpu
    if gpu != point.gpu:
        hint = f"choose --gpu {gpu}, or a --cluster with {point.gpu}"
        if gpu not in (listed := [*hardware.names(), "CPU"]) and not inputs.cluster.hardware:
            hint = f"the hardware table has no such GPU; {closest(gpu.upper(), listed)}; or state its peaks: hardware:"
        raise UserError(
            f"cluster {inputs.cluster.name} has {gpu}, the point is for {point.gpu}", hint=hint
        )


def _spec(
    file: RecipeFile, point: Point, inputs: Inputs, document: Document, launched: Framework
) -> RunSpec:
    """The run with the recipe's environment only."""
    stated = {
        "workload": file.recipe.workload,
        "recipe": file.name,
        "task": file.recipe.task,
        "source": point.group.source if point.derived is None else None,
        "derived": point.derived,
        "framework": point.framework,
        "gpu": point.gpu,
        "precision": point.precision,
        "num_gpus": point.num_gpus,
        "num_nodes": -(-point.num_gpus // inputs.cluster.gpus_per_node),
        "replaced_image": inputs.image
        if launched.site_image(inputs.cluster, inputs.image)
        else None,
        **dict(inputs),
        "image": image_of_run(inputs.cluster, launched, inputs.image, document),
    }
    kind = workload(file.recipe.workload)
    try:
        return kind.planned(stated, file.recipe, launched)
    except ValidationError as error:
        raise explained(error, kind, file.document) from None


def _with_environment(spec: RunSpec, launched: Framework, document: Document) -> RunSpec:
    """``spec`` with the framework's and the site's variables. UserError if null is set
    for one of the framework's.
    """
    variables = {name: variable.value for name, variable in launched.environment(spec).items()}
    site = spec.cluster.env
    for section in (document.get("env", Document()), document["cluster"].get("env", Document())):
        for name, where in section.places.items():
            if name in variables and name not in {**spec.env, **site}:
                hint = "benchrun sets it for the framework: it can have another value, but it cannot be removed"
                raise UserError(f"{name} cannot be null", hint=hint, where=where)
    variables |= spec.env
    if path := launched.python_path(spec.cluster):
        site = {**site, "PYTHONPATH": path}
    replaced = {name: value for name, value in variables.items() if name in site}
    return spec.model_copy(update={"env": variables | site, "replaced_env": replaced})
