"""Extensions of the core: benchrun's own capabilities, and packages of a site's own.

A package that is installed with pip states what it adds as entry points of the groups
below:

    [project.entry-points."benchrun.frameworks"]
    mine = "my_package.framework:Mine"

The core imports no capability. It asks here for what a group holds, or for one object
by name.
"""

import functools
from collections.abc import Iterator
from importlib import import_module
from typing import Any, Protocol

from benchrun.errors import UserError

_CAPABILITIES = "benchrun.capabilities"
_RL, _SERVING = f"{_CAPABILITIES}.rl", f"{_CAPABILITIES}.serving"
_FRAMEWORKS = "benchrun.frameworks"

BUILT_IN: dict[str, dict[str, str]] = {
    "frameworks": {
        "megatron-core": f"{_FRAMEWORKS}.megatron_core.framework:MegatronCore",
        "megatron-lm": f"{_FRAMEWORKS}.megatron.framework:MegatronLM",
        "nemo1": f"{_FRAMEWORKS}.nemo1.framework:NeMo1",
        "nemo2": f"{_FRAMEWORKS}.nemo2.framework:NeMo2",
        "megatron-bridge": f"{_FRAMEWORKS}.megatron_bridge.framework:MegatronBridge",
        "hf": f"{_FRAMEWORKS}.hf.framework:HuggingFace",
        "command": f"{_FRAMEWORKS}.command.framework:Command",
        "maxtext": f"{_FRAMEWORKS}.maxtext.framework:MaxText",
        "paxml": f"{_FRAMEWORKS}.paxml.framework:PaXML",
        "vllm": f"{_SERVING}.frameworks.vllm:Vllm",
        "sglang": f"{_SERVING}.frameworks.sglang:Sglang",
        "trtllm": f"{_SERVING}.frameworks.trtllm:TensorRT",
        "transformers-serve": f"{_SERVING}.frameworks.transformers_serve:TransformersServe",
        "nemo-rl": f"{_RL}.frameworks.nemo_rl:NemoRL",
        "nemo-aligner": f"{_RL}.frameworks.nemo_aligner:NemoAligner",
        "trl": f"{_RL}.frameworks.trl:Trl",
    },
    # Programs of this package that a job runs in the place of a framework. No recipe
    # can name them.
    "checks": {"node-check": f"{_CAPABILITIES}.nodes.framework:NodeCheck"},
    # The first dialect that recognises a log's lines reads it.
    "dialects": {
        "command": f"{_FRAMEWORKS}.command.dialect:Command",
        "trl": f"{_RL}.dialects.trl:Trl",
        "nemo-aligner": f"{_RL}.dialects.nemo_aligner:NemoAligner",
        "nemo-aligner-sft": f"{_RL}.dialects.nemo_aligner_sft:NemoAlignerSft",
        "nemo-rl": f"{_RL}.dialects.nemo_rl:NemoRL",
        "verl": f"{_RL}.dialects.verl:Verl",
        "verl-sft": f"{_RL}.dialects.verl_sft:VerlSft",
        "openrlhf": f"{_RL}.dialects.openrlhf:OpenRLHF",
        "worker": f"{_FRAMEWORKS}.megatron_core.dialect:Worker",
        "megatron-bridge": f"{_FRAMEWORKS}.megatron_bridge.dialect:MegatronBridge",
        "megatron": f"{_FRAMEWORKS}.megatron.dialect:Megatron",
        "nemo2": f"{_FRAMEWORKS}.nemo2.dialect:Nemo2",
        "nemo1": f"{_FRAMEWORKS}.nemo1.dialect:Nemo1",
        "nemo-automodel": f"{_FRAMEWORKS}.nemo_automodel.dialect:NemoAutomodel",
        "torchtitan": f"{_FRAMEWORKS}.torchtitan.dialect:Torchtitan",
        "maxtext": f"{_FRAMEWORKS}.maxtext.dialect:MaxText",
        "nanotron": f"{_FRAMEWORKS}.nanotron.dialect:Nanotron",
        "paxml": f"{_FRAMEWORKS}.paxml.dialect:Paxml",
        "hf": f"{_FRAMEWORKS}.hf.dialect:HuggingFace",
        "deepspeed": f"{_FRAMEWORKS}.deepspeed.dialect:DeepSpeed",
        "sglang": f"{_SERVING}.dialects.sglang:Sglang",
        "vllm": f"{_SERVING}.dialects.vllm:Vllm",
        "trtllm": f"{_SERVING}.dialects.trtllm:TensorRT",
        "genai-perf": f"{_SERVING}.dialects.genai_perf:GenaiPerf",
    },
    # vLLM's reader takes what has its keys, so it comes last.
    "documents": {
        "sglang": f"{_SERVING}.dialects.sglang:document",
        "genai-perf": f"{_SERVING}.dialects.genai_perf:document",
        "trtllm": f"{_SERVING}.dialects.trtllm:document",
        "vllm": f"{_SERVING}.dialects.vllm:document",
    },
    "workloads": {
        "training": "benchrun.runspec.spec:TrainingSpec",
        "nodes": "benchrun.runspec.spec:NodesSpec",
        "command": "benchrun.runspec.command:CommandSpec",
        "inference": "benchrun.runspec.inference:InferenceSpec",
        "post-training": "benchrun.runspec.post_training:PostTrainingSpec",
    },
    "metrics": {},
    "verbs": {},
    "expectations": {"predict": f"{_CAPABILITIES}.predict.usecase:predicted_step"},
    "formats": {"html": f"{_CAPABILITIES}.html.page:made_now"},
}
"""Group -> name -> ``module:object``. A package's entry points of ``benchrun.GROUP``
come after these.

- frameworks: subclasses of `benchrun.frameworks.base.Framework`
- dialects: subclasses of `benchrun.logs.dialect.Dialect`
- documents: functions from a JSON document to a server's results
- workloads: subclasses of `benchrun.runspec.spec.RunSpec`
- metrics: `benchrun.measure.registry.Metric`
- verbs: click commands
- expectations: functions from a RunSpec to the expected step time with its interval, or None
- formats: functions from a `benchrun.show.model.ReportModel`, and ``by`` what a row is, to text
"""


class _Entry(Protocol):
    """An entry point of a package."""

    name: str
    value: str

    def load(self) -> Any: ...


def names(group: str) -> list[str]:
    """The names of everything in ``group``: built-in ones first. Imports none of them."""
    built_in = []
    for name, path in BUILT_IN[group].items():
        if not _is_absent(path):
            built_in.append(name)
    return built_in + list(installed(group))


def load(group: str, name: str) -> Any:
    """The object called ``name`` in ``group``. KeyError if there is none; UserError if
    it cannot be loaded.
    """
    if name in BUILT_IN[group]:
        return imported(BUILT_IN[group][name])
    return _loaded(group, installed(group)[name])


def everything(group: str) -> Iterator[Any]:
    """Every object in ``group``, in the order of `names`. UserError if one of a package
    cannot be loaded.
    """
    for name in names(group):
        yield load(group, name)


def added(group: str) -> Iterator[tuple[str, Any]]:
    """Name and object of what packages add to ``group``."""
    for name, entry in installed(group).items():
        yield name, _loaded(group, entry)


def capability(module: str, name: str) -> Any:
    """The object ``name`` of a module of ``benchrun.capabilities``. UserError if a
    folder that it needs is missing.
    """
    return imported(f"{_CAPABILITIES}.{module}:{name}")


def has(folder: str) -> bool:
    """Whether the capability ``folder`` is there."""
    return not _is_absent(f"{_CAPABILITIES}.{folder}")


@functools.cache
def installed(group: str) -> dict[str, _Entry]:
    """The entry points that packages have for ``group``, by name. UserError if one
    takes a name of benchrun's.
    """
    entries = {}
    for entry in _all_entries():
        if entry.group == f"benchrun.{group}":
            entries[entry.name] = entry
    for name in entries.keys() & BUILT_IN[group].keys():
        raise UserError(
            f"{_place(group, entries[name])} takes a name of benchrun's own",
            hint="give it another name",
        )
    return entries


@functools.cache
def _all_entries() -> tuple[Any, ...]:
    """Every entry point of a group of benchrun's."""
    from importlib.metadata import entry_points  # start-up without a look at them reads no metadata

    found = entry_points()
    return tuple(
        entry
        for group in found.groups
        if group.startswith("benchrun.")
        for entry in found.select(group=group)
    )


def _loaded(group: str, entry: _Entry) -> Any:
    """The object of a package. UserError if its import fails, however it fails."""
    try:
        return entry.load()
    except Exception as error:
        why = f"{type(error).__name__}: {error}"
        raise UserError(
            f"{_place(group, entry)} cannot be loaded: {why}",
            hint="mend the package, or uninstall it",
        ) from error


def _place(group: str, entry: _Entry) -> str:
    return f"the entry point {entry.name} = {entry.value} of benchrun.{group}"


def imported(path: str) -> Any:
    """The object at ``module:object``. UserError if a capability that it needs is
    missing.
    """
    module, _, name = path.partition(":")
    try:
        return getattr(import_module(module), name)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if not missing.startswith(f"{_CAPABILITIES}."):
            raise
        folder = missing.removeprefix(f"{_CAPABILITIES}.").partition(".")[0]
        hint = "install the whole of benchrun"
        raise UserError(f"this installation has no capability '{folder}'", hint=hint) from error


@functools.cache
def _is_absent(path: str) -> bool:
    """Whether ``path`` is in a capability whose folder was removed."""
    if not path.startswith(_CAPABILITIES):
        return False
    from importlib.util import find_spec  # only if a capability is asked for

    folder = path.removeprefix(_CAPABILITIES + ".").partition(":")[0].partition(".")[0]
    return find_spec(f"{_CAPABILITIES}.{folder}") is None
