"""The conditions of a measurement: what must agree before two numbers may be compared."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from math import log
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator, PlainSerializer, PlainValidator

from benchrun.logs.serving import plain
from benchrun.model import Frozen, ModelShape
from benchrun.recipes.schema import TrainingRecipe
from benchrun.rundir.artifacts import machine, trained_with
from benchrun.runspec.spec import Reduction, RunSpec, TrainingSpec
from benchrun.vocabulary import (
    DEGREES,
    HARD,
    NO_WORK,
    Reduced,
    by_path,
    dimensions,
    flat,
    reduced,
    reductions,
)

if TYPE_CHECKING:
    from benchrun.logs import Log
    from benchrun.measure.setting import Setting

besides_recipe = attrgetter(*HARD[1:])
WHOLE = "the model's own"
"""Words in JSON for a model of which only the number of layers was reduced."""
DEFAULTS = "the defaults"
"""Words in JSON for a run whose training options are all defaults."""
LAYOUT = ("mbs", *DEGREES, "fsdp", "fp8_recipe", "options")
SOFT = ("framework", "image", "framework_version", "variant", *LAYOUT)
"""Conditions that may differ and are then named: a comparison across layouts and
frameworks is fair.
"""
MACHINE = ("software", "driver", "power_limit_w")
"""Conditions that are named if both sides know them and they differ; no reference is
chosen by them.
"""
NOT_OPTIONS = (
    "steps",
    "seed",
    "lr",
    "fp8.recipe",
    "min_lr",
    "lr_warmup_steps",
    "weight_decay",
    "ceilings",
    "breakdown",
)
"""Fields of ``training`` that have their own key here or do not affect the speed."""
LOSS = ("steps", "seed", "lr", "data")
"""Conditions that decide the loss, and so must agree too if losses are compared."""


def _items(empty: str, item: Callable[[Any], Any], value: Any) -> tuple[Any, ...]:
    """The items of a field, from its text in JSON or as they are."""
    texts = [] if value == empty else value.split(", ") if isinstance(value, str) else value
    return tuple(map(item, texts))


def _joined(empty: str, value: tuple[Any, ...]) -> str:
    return ", ".join(map(str, value)) or empty


Dimensions = Annotated[
    tuple[Reduced, ...],
    PlainValidator(partial(_items, WHOLE, reduced)),
    PlainSerializer(partial(_joined, WHOLE)),
]
Options = Annotated[
    tuple[str, ...],
    PlainValidator(partial(_items, DEFAULTS, str)),
    PlainSerializer(partial(_joined, DEFAULTS)),
]


class Conditions(Frozen):
    """The key of a measurement; None is what was not stated. A published one may lack
    even what must agree.
    """

    recipe: str
    task: str
    gpu: str
    num_gpus: int | None
    precision: str | None
    num_layers: int | None
    seq_length: int | None
    gbs: int | None
    dimensions: Dimensions = ()
    """Other sizes of the model that were reduced; in JSON e.g. ``vocab_size 32000 of
    128256``.
    """
    settings: Annotated[str, BeforeValidator(lambda value: value or "")] = ""
    """Inputs of a workload other than training, e.g. ``concurrency 8, requests 1000``.
    """
    framework: str | None = None
    image: str | None = None
    """Container image, as ``registry/name:tag``: the version of everything in it."""
    framework_version: str | None = None
    """Version of the framework, if no image states it."""
    variant: str | None = None
    """Name that tells numbers of one source apart, e.g. ``without Transformer Engine``.
    """
    software: str | None = None
    """Versions of what trained, e.g. ``megatron-core 0.16.1, torch 2.9.0``."""
    driver: str | None = None
    """Version of the GPUs' driver."""
    power_limit_w: str | None = None
    """Power limit of the GPUs in W."""
    fp8_recipe: str | None = None
    """delayed, tensorwise, blockwise or mxfp8, with precision fp8."""
    mbs: int | None = None
    tp: int | None = None
    pp: int | None = None
    cp: int | None = None
    vp: int | None = None
    ep: int | None = None
    fsdp: int | None = None
    """Ranks over which the weights are sharded; no published row states it."""
    options: Options | None = None
    """Training options other than the defaults, e.g. ``cuda_graphs=layers``; in JSON
    joined by commas.
    """
    steps: int | None = None
    seed: int | None = None
    lr: float | None = None
    data: str | None = None
    """``mock``, or the name of the synthetic data set."""
    shape: str | None = None
    """The whole model as `shape_of` writes it; None if the recipe's name stands for it.
    """
    reduced: tuple[Reduction, ...] = ()
    """Sizes of which a proxy has less; in JSON e.g. ``num_layers 4 of 96``."""


class Difference(Frozen):
    """One key that differs between a reference and a run."""

    key: str
    theirs: str | int | float | None
    ours: str | int | float | None


def conditions(spec: RunSpec) -> Conditions:
    """The conditions of a run."""
    if not isinstance(spec, TrainingSpec):
        unstated = dict.fromkeys(("num_layers", "seq_length", "gbs"))
        return Conditions(**{**unstated, **_stated(spec), "image": spec.container_image})
    derived = {
        "image": spec.container_image,
        "dimensions": dimensions(spec.reduced),
        "fp8_recipe": spec.training.fp8.recipe if spec.precision == "fp8" else None,
        "options": _options(spec),
        "data": "mock" if spec.data.kind == "mock" else spec.data_set,
        "shape": None if spec.reduced else shape_of(spec.model),
    }
    return Conditions(**{**_stated(spec, spec.model, spec.layout, spec.training), **derived})


def with_machine(own: Conditions, environment: Mapping[str, Any]) -> Conditions:
    """``own`` with what env.json says of the machine and its software."""
    stated = machine(environment)
    versions = ", ".join(
        f"{name} {version}" for name, version in sorted(trained_with(environment).items())
    )
    limits = {"driver": stated.get("driver"), "power_limit_w": stated.get("power limit (W)")}
    return own.model_copy(update={"software": versions or None, **limits})


def conditions_of_log(
    log: "Log", setting: "Setting", model: ModelShape, recipe: str, whole: TrainingRecipe
) -> Conditions:
    """The conditions of a bare log, of the ``recipe`` whose content is ``whole``; it
    trained ``model``.
    """
    reduced = reductions(model, whole.model)
    derived = {
        "recipe": recipe,
        "num_layers": model.num_layers,
        "dimensions": dimensions(reduced),
        "framework": log.framework if len(log.steps) else None,
        "steps": log.planned_steps,
        "shape": shape_of(whole.model) if setting.task == whole.task else None,
        "reduced": reduced,
    }
    return Conditions(**{**_stated(log.facts, setting), **derived})


def _stated(*sources: object) -> dict[str, Any]:
    """The conditions that ``sources`` have under the same names; the last one counts."""
    pairs = (
        (name, source)
        for source in sources
        for name in Conditions.model_fields
        if hasattr(source, name)
    )
    return {name: getattr(source, name) for name, source in pairs}


def shape_of(model: ModelShape) -> str:
    """The dimensions of ``model`` that decide what a step computes: not how many
    positions it has room for.
    """
    return ", ".join(f"{name} {size}" for name, size in flat(model).items() if name not in NO_WORK)


def _options(spec: TrainingSpec) -> tuple[str, ...]:
    """Training options that affect the speed, differ from the default and have no key
    of their own.
    """
    unused = set()
    for name, used in (("fp8", spec.precision == "fp8"), ("lora", spec.task == "lora")):
        if not used:
            unused.add(name)
    return tuple(
        f"{name}={'+'.join(value) if isinstance(value, tuple) else value}".lower()
        for name, value in by_path(spec.training.model_dump(exclude_defaults=True))
        if name not in NOT_OPTIONS and name.partition(".")[0] not in unused
    )


def hard_differences(published: Conditions, own: Conditions) -> tuple[Difference, ...]:
    """The conditions that must agree and do not, of two recipes for one model; an
    unstated one differs.
    """
    return differences(published, own, HARD[1:], unstated=True)


def settings_distance(one: str, other: str) -> float:
    """Distance between two `Conditions.settings`: the logarithm of the ratio of each
    number, 1 for any other part.
    """
    parts = []
    for text in (one, other):
        parts.append(dict(part.rpartition(" ")[::2] for part in text.split(", ") if part))
    distance = 0.0
    for name in parts[0].keys() | parts[1].keys():
        texts = [each.get(name, "") for each in parts]
        numbers = [plain(text) or 0.0 for text in texts]
        distance += abs(log(numbers[0] / numbers[1])) if min(numbers) > 0 else texts[0] != texts[1]
    return distance


def differences(
    published: Conditions, own: Conditions, keys: Iterable[str], *, unstated: bool = False
) -> tuple[Difference, ...]:
    """The ``keys`` with different values, as JSON has them; a value that is not stated
    differs if ``unstated``.
    """
    pairs = ((key, getattr(published, key), getattr(own, key)) for key in keys)
    differing = [key for key, a, b in pairs if a != b and (unstated or None not in (a, b))]
    if not differing:
        return ()
    a = published.model_dump(mode="json", include={*differing})
    b = own.model_dump(mode="json", include={*differing})
    return tuple(Difference(key=key, theirs=a[key], ours=b[key]) for key in differing)
