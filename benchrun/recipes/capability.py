"""Refuses what a framework cannot run, from the attributes of the framework.

A value that the framework ignores is refused as well: the run would differ from its
spec.
"""

from collections.abc import Callable, Iterable, Iterator
from types import SimpleNamespace

from benchrun.frameworks.base import PARALLELISM, WORKER_OPTIONS, Framework
from benchrun.frameworks.registry import names
from benchrun.model.features import FEATURES, features
from benchrun.runspec.identity import value_of
from benchrun.runspec.profile import Profile
from benchrun.runspec.spec import RunSpec, TrainingSpec
from benchrun.runspec.training import Data, Training

DEFAULTS = SimpleNamespace(training=Training(), data=Data(), profile=Profile())
WITHOUT_PROFILER = "changes nothing while profile.tool is none: name a profiler"
"""Part of the refusal of a profile without a tool."""


def incapable(spec: RunSpec, framework: Framework) -> Iterator[str]:
    """Every reason why ``framework`` cannot run ``spec``."""
    if spec.workload != framework.workload:
        others = _others(lambda other: other.workload == spec.workload)
        yield f"benchrun supports {framework.name} for {framework.workload}, not for {spec.workload}{others}"
        return
    yield from _workload(spec, framework)
    if isinstance(spec, TrainingSpec):
        yield from _layout(spec, framework)
        yield from _model(spec, framework)
        yield from _training(spec, framework)
        yield from _data(spec, framework)
        yield from _profile(spec, framework)
    yield from framework.refusals(spec)


def _or(words: Iterable[str]) -> str:
    *first, last = sorted(words)
    if not first:
        return last
    return f"{', '.join(first)} or {last}"


def _others(can: Callable[[Framework], bool]) -> str:
    """Advice in brackets: the frameworks for which ``can`` holds."""
    if listed := names(can):
        return f" ({_or(listed)} can)"
    return ""


def _workload(spec: RunSpec, framework: Framework) -> Iterator[str]:
    name = framework.name
    task = spec.task
    precision = spec.precision
    if task not in framework.tasks:
        yield f"benchrun does not support {name} for {task}{_others(lambda other: task in other.tasks)}"
    if precision not in framework.precisions:
        others = _others(lambda other: precision in other.precisions)
        yield f"benchrun supports {name} in {_or(framework.precisions)}, not in {precision}{others}"
    if spec.gpu == "CPU" and framework.needs_gpu:

        def on_a_cpu(other: Framework) -> bool:
            return not other.needs_gpu and other.workload == spec.workload

        yield f"{name} needs GPUs: take {_or(names(on_a_cpu))} on a CPU"
    if framework.needs_slurm and spec.cluster.scheduler != "slurm":
        yield f"{name} reads its ranks from Slurm's variables: cluster.scheduler must be slurm"


def _layout(spec: TrainingSpec, framework: Framework) -> Iterator[str]:
    name = framework.name
    layout = spec.layout
    for degree in PARALLELISM:
        if degree not in framework.degrees and getattr(layout, degree) > 1:
            yield f"benchrun supports {name} without {degree}: {degree} ({getattr(layout, degree)}) must be 1"
    if layout.fsdp > 1 and not framework.fsdp:
        others = _others(lambda other: other.fsdp and other.workload == spec.workload)
        yield f"benchrun supports {name} without FSDP: fsdp ({layout.fsdp}) must be 1{others}"
    if layout.stages and not framework.stages:
        others = _others(lambda other: other.stages and other.workload == spec.workload)
        yield f"benchrun supports {name} with layers spread evenly over stages: layout.stages must be null{others}"
    if spec.training.tp_comm_overlap:
        if not framework.userbuffers:
            yield f"{name} has no userbuffers: tp_comm_overlap must be false"
        elif layout.tp == 1 or not layout.sequence_parallel:
            yield f"tp_comm_overlap needs tp ({layout.tp}) > 1 and sequence_parallel"


def _model(spec: TrainingSpec, framework: Framework) -> Iterator[str]:
    name = framework.name
    model = spec.model
    if model.moe is not None and not framework.experts:
        yield f"benchrun supports {name} for models without experts: this one has some"
    for missing in (each for each in features(model) if each not in framework.features):
        others = _others(lambda other, missing=missing: missing in other.features)  # type: ignore[misc]
        yield f"benchrun supports {name} without {FEATURES[missing]}{others}"
    for field, value in framework.model_values.items():
        if getattr(model, field) != value:
            wrong = f"{field} must be {value}, not {getattr(model, field)}"
            yield f"benchrun does not support {name} for this kind of model: {wrong}"
    longest = model.max_position_embeddings
    if (
        framework.positions_per_sequence
        and model.position_embedding == "learned"
        and longest != spec.seq_length
    ):
        what = f"max_position_embeddings ({longest}) must be seq_length ({spec.seq_length})"
        yield f"{name} has one learned position for each token of a sequence: {what}"


def _training(spec: TrainingSpec, framework: Framework) -> Iterator[str]:
    name = framework.name
    training = spec.training
    policy = training.recompute.policy
    policies = framework.memory.policies
    if policy is not None and policy not in policies:
        legal = "recompute.policy must be null"
        if policies:
            legal = f"it could be {', '.join(policies)}"
        yield f"{name} has no recompute.policy '{policy}': {legal}"
    for what in ("ceilings", "breakdown"):
        if getattr(training, what) and not framework.own_worker:
            yield f"{name} measures no {what}: training.{what} must be false{_others(lambda other: other.own_worker)}"
    if spec.precision == "fp8" and training.fp8.recipe not in framework.fp8_recipes:
        yield f"{name}: fp8.recipe must be {_or(framework.fp8_recipes)}, not {training.fp8.recipe}"
    for option in WORKER_OPTIONS:
        if option not in framework.options and _changed(spec, f"training.{option}"):
            takers = _or(names(lambda other, option=option: option in other.options))  # type: ignore[misc]
            yield f"{name} does not support training.{option}: leave it out, or use {takers}"
    for field, reason in framework.fixed.items():
        if _changed(spec, field):
            default = str(value_of(DEFAULTS, field)).lower()
            value = str(value_of(spec, field)).lower()
            yield f"{name} {reason}: {field} must be {default}, not {value}"


def _data(spec: TrainingSpec, framework: Framework) -> Iterator[str]:
    """Each packed sequence of conversations is for one rank and one micro-batch."""
    name = framework.name
    data = spec.data
    if data.kind == "mock":
        if framework.own_worker and _changed(spec, "data.num_workers"):
            why = f"{name} makes mock tokens in the training process"
            yield f"{why}: data.num_workers must be {DEFAULTS.data.num_workers}, or data.kind synthetic"
        return
    if not framework.synthetic_data:
        yield f"{name} makes its own tokens: data.kind must be mock, not {data.kind}"
    elif (
        spec.task != "pretrain" and spec.task in framework.tasks and framework.conversations is None
    ):
        readers = _or(
            names(lambda other: other.conversations is not None and spec.task in other.tasks)
        )
        yield f"{name} cannot read conversations: use {readers} for {spec.task}, or data.kind mock"
    elif spec.packed:
        if spec.mbs > 1:
            yield f"{name} takes packed sequences one at a time: mbs ({spec.mbs}) must be 1, or data.kind mock"
        if spec.layout.cp > 1:
            yield f"conversations are packed for one rank each: cp ({spec.layout.cp}) must be 1, or data.kind mock"
        talk = data.instructions
        # datagen's limit: the longer half of a distribution must fit into a sequence.
        most = spec.seq_length if talk.lengths == "fixed" else spec.seq_length // 2
        if talk.mean_length > most:
            what = f"data.instructions.mean_length ({talk.mean_length})"
            yield f"{what} must be at most {most}, for {talk.lengths} lengths in sequences of {spec.seq_length}"


def _profile(spec: TrainingSpec, framework: Framework) -> Iterator[str]:
    name = framework.name
    profile = spec.profile
    training = spec.training
    if profile.tool == "none":
        stated = (key for key, value in profile if value != getattr(DEFAULTS.profile, key))
        for key in stated:
            yield f"profile.{key} {WITHOUT_PROFILER} (--profile kineto or nsys)"
        return
    if profile.tool not in framework.profilers:
        legal = _or(("none", *framework.profilers))
        others = _others(lambda other: profile.tool in other.profilers)
        yield f"benchrun cannot profile {name} with {profile.tool}: profile.tool could be {legal}{others}"
    if spec.gpu == "CPU" and profile.tool == "nsys":
        yield "nsys records between two calls of CUDA's profiler, on a GPU: profile.tool must be kineto on a CPU"
    if training.breakdown and profile.tool == "nsys":
        yield "nsys keeps torch's profiler from the GPU: training.breakdown must be false, or profile.tool kineto"
    if absent := [rank for rank in profile.ranks if rank >= spec.num_gpus]:
        yield f"profile.ranks names rank {absent[0]}: it must be at most {spec.num_gpus - 1}, the last rank"
    if profile.options and profile.tool != "nsys":
        yield f"profile.options are options of nsys: they must be empty for profile.tool {profile.tool}"


def _changed(spec: TrainingSpec, field: str) -> bool:
    return bool(value_of(spec, field) != value_of(DEFAULTS, field))
