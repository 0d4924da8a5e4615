"""Terms that every package uses, each defined once."""

import re
from collections.abc import Iterable, Iterator, Mapping
from enum import IntEnum
from typing import Any, Literal, NamedTuple

Precision = Literal["fp32", "bf16", "fp8", "nvfp4"]
LOW: tuple[Precision, ...] = ("fp8", "nvfp4")
"""Precisions of matrix products below 16 bits; the rest of the model is in BF16."""
Task = Literal["pretrain", "sft", "lora"]
Better = Literal["lower", "higher", "equal"]
Runtime = Literal["none", "pyxis", "apptainer", "singularity", "charliecloud", "podman", "docker"]
"""Direction of a metric."""

HARD = (
    "recipe",
    "task",
    "gpu",
    "num_gpus",
    "precision",
    "num_layers",
    "dimensions",
    "seq_length",
    "gbs",
    "settings",
)
"""Conditions that must agree before two numbers may be compared."""

DEGREES = ("tp", "pp", "cp", "vp", "ep")
"""Degrees of a training's layout, in the order in which they are printed; data
parallelism follows from these.
"""

STAMP = r"\d{8}T\d{6}Z"
"""The time of the launch in a run's id."""


def data_parallel(num_gpus: int, gpus_per_replica: int) -> int:
    """Data-parallel ranks; 1 if a replica, of tp * pp * cp GPUs, does not fit on
    ``num_gpus``, which is refused.
    """
    return max(1, num_gpus // gpus_per_replica)


GIB = 2**30
"""Bytes."""
HOUR_S = 3600
MOST_GPUS = 1 << 20
"""Limit of the number of GPUs, more than any run has."""
LARGEST_SIZE = (1 << 31) - 1
"""The largest size, batch or count of steps: frameworks store them in 32 bits."""
MOST_REPEATS = 1000
"""More runs of one point than anybody makes."""
MOST_LAYERS = 10_000
"""Limit of the number of layers, more than any model has."""

NO_WORK = frozenset(
    {
        "max_position_embeddings",
        "rope_scaling.kind",
        "rope_scaling.factor",
        "rope_scaling.original_positions",
        "moe.aux_loss_coeff",
        "moe.force_balance",
        "moe.balance",
    }
)
"""Dimensions that do not change the work per token: room for longer sequences, and how
experts are fed.
"""
ABSENT = frozenset(
    {
        "qkv_bias",
        "qk_norm",
        "mla",
        "attention_sinks",
        "window",
        "rope_scaling",
        "no_rope_every",
        "mtp_layers",
        "mamba",
        "moe.shared_ffn_hidden_size",
        "moe.latent_size",
        "moe.leading_dense_layers",
        "moe.every",
        "moe.sigmoid",
        "moe.expert_bias",
        "moe.num_groups",
        "moe.topk_groups",
        "moe.scaling_factor",
        "moe.probs_on_input",
        "window.full_every",
    }
)
"""Dimensions that are not listed if a model has none of it."""
Size = int | str | None


class Reduced(NamedTuple):
    """A dimension that makes a run a proxy: its size there and in the whole model; as
    text ``num_layers 4 of 96``.
    """

    name: str
    """Name as in `ModelShape`; ``moe.num_experts`` for one of the experts."""
    size: Size
    """Size in the proxy."""
    whole: Size
    """Size in the recipe's model."""

    def __str__(self) -> str:
        return f"{self.name} {self.size} of {self.whole}"


def reduced(text: Any) -> Reduced:
    """A reduction from its text, or as it is. ValueError for anything else."""
    if isinstance(text, Reduced):
        return text
    match = re.fullmatch(r"(\S+) (\S+) of (\S+)", str(text))
    if match is None:
        raise ValueError("expected NAME SIZE of SIZE, e.g. num_layers 4 of 96")
    return Reduced(match[1], _size(match[2]), _size(match[3]))


def _size(text: str) -> Size:
    if text == "None":
        return None
    if not text.isdecimal():
        return text
    return int(text)


def in_words(values: Iterable[tuple[str, Any]]) -> str:
    """Names with their values, ``tp 2, pp 4``."""
    return ", ".join(f"{name} {value}" for name, value in values)


def by_path(values: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """Each value of nested mappings by its path: ``{"fp8": {"format": "e4m3"}}`` as
    ``("fp8.format", "e4m3")``.
    """
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from by_path(value, f"{before}{name}.")
        else:
            yield before + name, value


def flat(model: Any) -> dict[str, Any]:
    """Every dimension of a model, a mapping or a `ModelShape`, by its name in a
    `Reduced`.
    """
    return dict(_flat(dict(model)))


def _flat(sizes: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, size in sizes.items():
        if isinstance(size, Mapping):
            nested = size
        elif hasattr(type(size), "model_fields"):
            nested = dict(size)
        else:
            nested = None
        if nested is not None:
            yield from _flat(nested, f"{prefix}{name}.")
        elif (size or prefix + name not in ABSENT) and (prefix + name, size) != ("moe", None):
            yield prefix + name, size


def reductions(model: Any, whole: Any) -> tuple[Reduced, ...]:
    """A reduction for each dimension in which ``model`` differs from ``whole``; none
    for the whole model.
    """
    sizes = flat(model)
    whole_sizes = flat(whole)
    pairs = (
        (name, sizes.get(name), whole_sizes.get(name))
        for name in whole_sizes | sizes
        if name not in NO_WORK
    )
    return tuple(
        reduced(f"{name} {size} of {whole_size}")
        for name, size, whole_size in pairs
        if size != whole_size
    )


def dimensions(reduced: tuple[Reduced, ...]) -> tuple[Reduced, ...]:
    """The reductions of anything but the number of layers."""
    return tuple(reduction for reduction in reduced if reduction.name != "num_layers")


ROLLOUTS = (
    "prompts_per_step",
    "generations_per_prompt",
    "max_sequence_length",
    "max_response_length",
)
"""Inputs of a post-training that decide how much a step generates."""


def rollout_settings(inputs: Mapping[str, Any]) -> str:
    """The work of a step of post-training, without how it is spread; ``inputs`` may
    lack what has a usual value.
    """
    made = inputs["generation"]
    stated = [f"{name} {inputs.get(name, 1)}" for name in ROLLOUTS]
    return ", ".join(
        [*stated, f"engine {made['engine']}", f"max_age_steps {made.get('max_age_steps', 0)}"]
    )


def request_load(stated: Mapping[str, Any]) -> str:
    """The load of a server as one condition, e.g. ``input_tokens 1024, output_tokens
    1024, concurrency 64``.
    """
    names = ("input_tokens", "output_tokens", "shortest", "concurrency", "request_rate")
    usual = {"shortest": 1.0, "concurrency": None, "request_rate": None}
    values = {name: stated.get(name, usual.get(name)) for name in names}
    return ", ".join(
        f"{name} {value:g}" for name, value in values.items() if value != usual.get(name, "")
    )


class Exit(IntEnum):
    """Exit codes of every command. Of several 2 and 3 win, then 1, then 4."""

    OK = 0
    SLOW = 1
    """Measured, and slower than the reference."""
    USER = 2
    """The user's input is wrong."""
    MACHINE = 3
    """Slurm or the machine failed."""
    INCONCLUSIVE = 4
    """Finished but inconclusive, incomplete, broken or not comparable."""
    INTERRUPTED = 130
    """A shell's code for a program that Ctrl-C ended."""
    CLOSED_PIPE = 141
    """A shell's code for a program whose reader went away, as ``head`` does."""


def worst(codes: Iterable[int]) -> Exit:
    """The exit code of several results; OK of none."""
    present = set(codes)
    order = (Exit.USER, Exit.MACHINE, Exit.SLOW, Exit.INCONCLUSIVE)
    return next((code for code in order if code in present), Exit.OK)
