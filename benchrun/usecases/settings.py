"""Facts about a log that the caller states because the log does not."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from numbers import Real
from typing import Any

from benchrun import hardware
from benchrun.errors import UserError
from benchrun.judge.references import load_references
from benchrun.logs import Log
from benchrun.logs.precision import number_of
from benchrun.logs.records import Derived, Facts
from benchrun.measure.problems import RANKS, product_of
from benchrun.measure.setting import Setting, as_trained, same_chip, stated_setting
from benchrun.model.layout import Layout
from benchrun.recipes.catalogue import recipe_file, training_file
from benchrun.runspec.cluster import Cluster
from benchrun.runspec.profile import Profile
from benchrun.runspec.spec import TrainingSpec, split_batch
from benchrun.runspec.training import Training
from benchrun.vocabulary import DEGREES

NOTHING = Setting()
"""The setting of a log about which its caller states nothing."""


def completed_setting(
    recipe: str | None = None,
    given: Setting = NOTHING,
    num_layers: int | None = None,
    *,
    takes_peak: bool = True,
) -> Setting:
    """``given`` with the model, task and sequence length of ``recipe``, and the GPU's
    name as benchrun spells it.

    ``num_layers`` is that of a proxy of the recipe's model; ``takes_peak``: the caller
    has an option for the peak of a GPU that is not listed. UserError for an unknown
    recipe, for a GPU without a stated peak that stands neither in the hardware table
    nor in a published number, and for a size that is not above zero.
    """
    for name in ("num_gpus", "seq_length", "gbs", "peak"):
        value = getattr(given, name)
        if value is not None and not (isinstance(value, Real) and 0 < float(value) < math.inf):
            raise UserError(f"{name} is {value!r}: it must be a number above zero")
    if given.gpu is not None:
        given = replace(given, gpu=_gpu(given.gpu, given.peak is not None, takes_peak))
        check_gpu(given)
    if recipe is None or recipe_file(recipe).recipe.workload != "training":
        return given
    _, workload = training_file(recipe)
    model = given.model or workload.model
    if num_layers is not None:
        model = model.model_copy(update={"num_layers": num_layers})
    if given.seq_length is None:  # a length that a log implies counts more
        given = replace(
            given, seq_length=workload.seq_length, derived={"seq_length": f"of {recipe}"}
        )
    return replace(given, model=model, task=workload.task)


def setting_beside(log: Log, given: Setting) -> Setting:
    """``given`` with its model in the dimensions that ``log`` states. UserError for a
    log of another model.
    """
    if not given.model:
        return given
    return replace(given, model=as_trained(given.model, log))


def check_gpu(setting: Setting) -> None:
    """UserError if a listed GPU is given a peak, or has no units for the precision of
    ``setting``.
    """
    gpu = hardware.gpu(setting.gpu or "")
    if gpu is None:
        return
    if setting.peak is not None:
        raise UserError(f"{gpu.name} is listed with its peaks", hint="leave --peak-tflops out")
    if setting.precision and not gpu.computes(setting.precision):
        able = []
        for name in ("bf16", "fp8", "mxfp8", "nvfp4"):
            if gpu.computes(name):
                able.append(name)
        raise UserError(
            f"{gpu.name} has no {setting.precision} units", hint=f"it computes in {', '.join(able)}"
        )


def _gpu(name: str, unlisted: bool, takes_peak: bool) -> str:
    """The name of a GPU as the hardware table or a published number spells it; others
    only if ``unlisted``.
    """
    listed = (*hardware.names(), "CPU")
    for names in (listed, {entry.key.gpu for entry in load_references()}):
        if spelled := [gpu for gpu in names if gpu.lower() == name.lower()]:
            return spelled[0]
    if unlisted:
        return name
    hint = f"listed: {', '.join(listed)}{'; for another: --peak-tflops' if takes_peak else ''}"
    raise UserError(f"no GPU '{name}' in the hardware table", hint=hint)


def check_options(log: Log, options: Mapping[str, Any]) -> Iterator[str]:
    """A sentence for each option, by name, that replaces a guess from the log.
    UserError if the log states another.

    UserError too for a precision, stated or given, that the GPU does not have. A stated
    value that the log refutes is a guess as well.
    """
    own = stated_setting(log, NOTHING)
    guesses = log.facts.derived
    for name, given in options.items():
        option = f"--{name.replace('_', '-')} {given}"
        stated = log.facts.num_layers if name == "num_layers" else getattr(own, name)
        if given is None or _agree(name, given, stated):
            continue
        if stated is not None:
            raise _contradiction(log, name, f"{option} contradicts the log, which states {stated}")
        guess = guesses.get(name)
        if name == "num_gpus":
            _check_ranks(log, given, guess)
        if guess and guess.value != given:
            yield f"{option} is used, not {guess.value}: {guess.reason}"
    number = number_of(log.facts.switches or {}) or options.get("precision")
    gpu = own.gpu or _gpu(options.get("gpu") or "CPU", unlisted=True, takes_peak=False)
    check_gpu(Setting(gpu=gpu, precision=number, peak=options.get("peak")))


def _check_ranks(log: Log, given: int, guess: Derived | None) -> None:
    """UserError if ``given`` GPUs are no whole multiple of the ranks of which the log
    states the number.

    The quotient of the batches, a ``guess`` at all ranks, counts those of data
    parallelism at least.
    """
    ranks, stated = product_of(log.facts, RANKS)
    if given % ranks:
        raise _contradiction(
            log, "tp", f"--num-gpus {given} contradicts the log, which states {stated}"
        )
    if guess and guess.value and given % guess.value:
        raise _contradiction(
            log, "gbs", f"--num-gpus {given} is no multiple of {guess.value}: {guess.reason}"
        )


def _contradiction(log: Log, name: str, message: str) -> UserError:
    fact = {"gpu": "device"}.get(name, name)
    hint = "leave the option out; a log that states something untrue cannot be judged"
    return UserError(message, where=log.facts.place(fact, log.file), hint=hint)


def _agree(name: str, given: Any, stated: Any) -> bool:
    """Whether an option and the log's own value are the same."""
    if name == "gpu" and stated is not None and same_chip(given, stated):
        return True
    return str(given).lower() == str(stated).lower()


def training_of(framework: str, facts: Facts, setting: Setting, ranks: int = 1) -> TrainingSpec:
    """The specification of a training as far as its log states it: other fields are
    absent, or hold the defaults. ``ranks``: GPUs, if their number is not stated.
    """
    gpu = hardware.gpu(setting.gpu or "")
    num_gpus = setting.num_gpus or ranks
    sizes = {name: size for name in DEGREES if (size := getattr(facts, name))}
    layout = Layout(**sizes, sequence_parallel=sizes.get("tp", 1) > 1)
    mbs = facts.mbs or 1
    fields: dict[str, Any] = {
        "framework": framework,
        "task": setting.task,
        "gpu": setting.gpu or "",
        "precision": setting.precision,
        "num_gpus": num_gpus,
        "model": setting.model,
        "seq_length": setting.seq_length,
        "gbs": setting.gbs,
        "mbs": mbs,
        "layout": layout,
        **split_batch(num_gpus, layout, mbs, setting.gbs or 1),
        "training": Training(),
        "profile": Profile(),
        "cluster": Cluster.model_construct(gpus_per_node=gpu.gpus_per_node if gpu else num_gpus),
    }
    return TrainingSpec.model_construct(
        **{name: value for name, value in fields.items() if value is not None}
    )
