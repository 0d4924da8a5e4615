"""Writes a site file: every key with its explanation, those that Slurm answers with a
value.
"""

import math
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import yaml
from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from benchrun import hardware
from benchrun.errors import UserError, closest
from benchrun.runspec.cluster import Binding, Cluster, Container, OwnGpu
from benchrun.runspec.documentation import field_docs

from .survey import Node, Partition, Survey, clock

SECTIONS: dict[str, type[BaseModel]] = {
    "hardware": OwnGpu,
    "container": Container,
    "binding": Binding,
}
DEFAULT_LIMIT_S = 1800
WIDTH = 100


def site_text(slurm: Survey, runtime: str, chosen: Partition, gpu: str | None = None) -> str:
    """The text of a site file for one partition; ``gpu``: the name where Slurm states
    none.
    """
    named = slurm_gpu(slurm, chosen) or gpu
    values = {**_values(slurm, chosen, runtime), "gpu": named or "CPU"}
    remarks = _remarks(slurm, chosen, named)
    head = [
        f"# Partition {chosen.name}, as Slurm describes it to user {slurm.user}. Every key is here; a comment has",
        "# the default. Check the file with: benchrun doctor --cluster FILE",
        "",
    ]
    return "\n".join([*head, *_lines(Cluster, values, remarks)]) + "\n"


def slurm_gpu(slurm: Survey, partition: Partition) -> str | None:
    """The GPU that Slurm's type names, ``CPU`` where it counts none; None if it counts
    GPUs without a type.
    """
    kind, gpus = _gpus(slurm.nodes_of(partition.name))
    if not gpus:
        return "CPU"
    return hardware.name_of(kind.replace("_", " "))


def chosen(slurm: Survey, name: str | None) -> Partition:
    """The partition of this name, by default that with the most GPUs. UserError if
    there is none.
    """
    names = [partition.name for partition in slurm.partitions]
    if name is not None and name not in names:
        raise UserError(f"Slurm has no partition '{name}'", hint=closest(name, names))
    up = [partition for partition in slurm.partitions if name in (None, partition.name)]

    def rank(partition: Partition) -> tuple[bool, int, bool]:
        gpus = sum(sum(node.gpus.values()) for node in slurm.nodes_of(partition.name))
        return partition.state == "UP", gpus, partition.default

    if not up:
        raise UserError("Slurm has no partition")
    return max(up, key=rank)


def _values(slurm: Survey, partition: Partition, runtime: str) -> dict[str, Any]:
    """Keys with the values that Slurm answers; None if it answers none."""
    nodes = slurm.nodes_of(partition.name)
    accounts = _accounts(slurm, partition)
    values: dict[str, Any] = {
        "description": f"partition {partition.name}",
        "scheduler": "slurm",
        "partition": partition.name,
        "mem": "0",
        "container": {"runtime": runtime},
        "binding": {"gpus_per_numa_node": None},
    }
    if len(accounts) == 1 and "associations" in slurm.enforced:
        values["account"] = accounts[0]
    most = partition.max_time_s
    if most is not None and most < DEFAULT_LIMIT_S:
        values["time_limit"] = clock(most)
    kind, gpus = _gpus(nodes)
    if not gpus:
        return {**values, "gpus_per_node": 2, "cpus_per_task": 1, "exclusive": False}
    values |= {"gpus_per_node": gpus, "gres": f"gpu:{kind}".removesuffix(":"), "exclusive": True}
    if "pmix" in slurm.mpi:
        values["mpi"] = "pmix"
    sockets = {node.sockets for node in nodes}
    if sockets == {2} and gpus % 2 == 0:
        values["binding"] = {"gpus_per_numa_node": gpus // 2}
    return values


def _remarks(slurm: Survey, partition: Partition, gpu: str | None) -> dict[str, str]:
    """Remarks: what Slurm offers for a key. ``gpu``: the value of that key."""
    nodes = slurm.nodes_of(partition.name)
    remarks = {
        "partition": f"Here: {', '.join(_about(slurm, each) for each in slurm.partitions)}",
        "container": f"srun has {'' if slurm.pyxis else 'no '}--container-image, which is pyxis",
    }
    if not gpu:
        remarks["gpu"] = f"WRITE IT: Slurm names no type. One of {', '.join(hardware.names())}"
    if not _gpus(nodes)[1]:
        remarks["gpus_per_node"] = "Slurm counts no GPUs here: two CPU ranks a node"
    if partition.max_time_s:
        remarks["time_limit"] = f"At most {clock(partition.max_time_s)} here"
    qos: dict[str, None] = {}
    for right in slurm.rights(partition):
        qos |= dict.fromkeys(right.qos)
    features: set[str] = set()
    for node in nodes:
        features.update(node.features)
    listed = (
        ("account", "Yours", _accounts(slurm, partition)),
        ("qos", "Yours", qos),
        ("reservation", "Here", [each.name for each in slurm.reservations]),
        ("constraint", "Features of the nodes", sorted(features)),
        ("mpi", "srun has", slurm.mpi),
    )
    for key, what, names in listed:
        if names:
            remarks[key] = f"{what}: {', '.join(names)}"
    return remarks


def _accounts(slurm: Survey, partition: Partition) -> list[str]:
    """The user's accounts that the partition accepts."""
    names = dict.fromkeys(right.account for right in slurm.rights(partition))
    found = []
    for name in names:
        if partition.accounts is None or name in partition.accounts:
            found.append(name)
    return found


def _gpus(nodes: list[Node]) -> tuple[str, int]:
    """Type and number of the GPUs that most nodes have."""
    kinds = Counter((kind, count) for node in nodes for kind, count in node.gpus.items())
    if kinds:
        return kinds.most_common(1)[0][0]
    return ("", 0)


def _about(slurm: Survey, partition: Partition) -> str:
    nodes = slurm.nodes_of(partition.name)
    kind, count = _gpus(nodes)
    text = f"{len(nodes)} node" if len(nodes) == 1 else f"{len(nodes)} nodes"
    if count:
        text += f", {count} GPUs {kind}".rstrip()
    if partition.state != "UP":
        text += f", {partition.state}"
    return f"{partition.name} ({text})"


def _lines(
    model: type[BaseModel], values: Mapping[str, Any], remarks: Mapping[str, str]
) -> Iterator[str]:
    """Each field of ``model``: its explanation as a comment, then the key, commented
    out if it has no value.
    """
    docs = field_docs(model)
    for name, field in model.model_fields.items():
        if name == "name":  # the name of the file
            continue
        for text in (docs.get(name, ""), remarks.get(name, "")):
            yield from textwrap.wrap(
                text.replace("``", ""), WIDTH, initial_indent="# ", subsequent_indent="# "
            )
        if name in SECTIONS:
            yield from _section(name, values.get(name) or {})
        elif values.get(name) is not None:
            yield f"{name}: {_yaml(values[name])}"
        else:
            default = field.get_default(call_default_factory=True)
            yield f"# {name}: {_yaml(None if default is PydanticUndefined else default)}"
        if model is Cluster:
            yield ""


def _section(name: str, values: Mapping[str, Any]) -> Iterator[str]:
    """The lines of a section; all of them are comments if none of its keys has a value."""
    stated = {key: value for key, value in values.items() if value is not None}
    mark = "" if stated else "# "
    yield f"{mark}{name}:"
    for line in _lines(SECTIONS[name], stated, {}):
        yield f"{mark}  {line}"


def _yaml(value: Any) -> str:
    """A value in YAML's flow style."""
    text = yaml.safe_dump(value, default_flow_style=True, width=math.inf)
    return text.removesuffix("...\n").rstrip()
