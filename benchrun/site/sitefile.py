"""Writes a site file: every key with its explanation, those that Slurm answers with a value."""

import json
import re
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from benchrun import hardware
from benchrun.errors import UserError, closest
from benchrun.runspec.cluster import Binding, Cluster, Container, OwnGpu
from benchrun.runspec.documentation import field_docs
from benchrun.site.survey import Association, Node, Partition, Survey, clock

SECTIONS: dict[str, type[BaseModel]] = {"hardware": OwnGpu, "container": Container, "binding": Binding}
DEFAULT_LIMIT_S = 1800
WIDTH = 100


def site_text(slurm: Survey, runtime: str | None, chosen: Partition, gpu: str | None = None) -> str:
    """The text of a site file for one partition; ``gpu``: the name if Slurm states none."""
    named = slurm_gpu(slurm, chosen) or gpu
    values = {**_values(slurm, chosen, runtime), "gpu": named or "CPU"}
    remarks = _remarks(slurm, chosen, runtime, named)
    head = [
        f"# Partition {chosen.name}, as Slurm describes it to user {slurm.user}. Every key is here; a comment has",
        "# the default. Check the file with: benchrun doctor --cluster FILE",
        "",
    ]
    return "\n".join([*head, *_lines(Cluster, values, remarks)]) + "\n"


def slurm_gpu(slurm: Survey, partition: Partition) -> str | None:
    """The GPU that Slurm's type names, ``CPU`` if it counts none; None if it counts GPUs without a type."""
    kind, gpus = _gpus(slurm.nodes_of(partition.name))
    return hardware.name_of(kind.replace("_", " ")) if gpus else "CPU"


def chosen(slurm: Survey, name: str | None) -> Partition:
    """The partition of this name, by default that with the most GPUs. UserError if there is none."""
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


def _values(slurm: Survey, partition: Partition, runtime: str | None) -> dict[str, Any]:
    """Keys with the values that Slurm answers; None if it answers none."""
    nodes, accounts = slurm.nodes_of(partition.name), _accounts(slurm, partition)
    kind, gpus = _gpus(nodes)
    two_sockets = {node.sockets for node in nodes} == {2} and gpus % 2 == 0 and gpus > 0
    most = partition.max_time_s
    return {
        "description": f"partition {partition.name}",
        "scheduler": "slurm",
        "gpus_per_node": gpus or 2,
        "partition": partition.name,
        "account": accounts[0] if len(accounts) == 1 and "associations" in slurm.enforced else None,
        "gres": (f"gpu:{kind}" if kind else "gpu") if gpus else None,
        "mem": "0",
        "cpus_per_task": None if gpus else 1,
        "exclusive": bool(gpus),
        "time_limit": None if most is None or most >= DEFAULT_LIMIT_S else clock(most),
        "mpi": "pmix" if gpus and "pmix" in slurm.mpi else None,
        "container": {"runtime": "pyxis" if slurm.pyxis else runtime or "none"},
        "binding": {"gpus_per_numa_node": gpus // 2 if two_sockets else None},
    }


def _remarks(slurm: Survey, partition: Partition, runtime: str | None, gpu: str | None) -> dict[str, str]:
    """Remarks: what Slurm offers for a key; empty if it states nothing.

    ``gpu``: the value of that key.
    """
    nodes, accounts = slurm.nodes_of(partition.name), _accounts(slurm, partition)
    qos = list(dict.fromkeys(name for right in _rights(slurm, partition) for name in right.qos))
    reservations = [each.name for each in slurm.reservations]
    features = sorted({feature for node in nodes for feature in node.features})
    most = partition.max_time_s
    return {
        "gpu": "" if gpu else f"WRITE IT: Slurm names no type. One of {', '.join(hardware.names())}",
        "gpus_per_node": "" if _gpus(nodes)[1] else "Slurm counts no GPUs here: two CPU ranks a node",
        "partition": f"Here: {', '.join(_about(slurm, each) for each in slurm.partitions)}",
        "account": f"Yours: {', '.join(accounts)}" if accounts else "",
        "qos": f"Yours: {', '.join(qos)}" if qos else "",
        "reservation": f"Here: {', '.join(reservations)}" if reservations else "",
        "constraint": f"Features of the nodes: {', '.join(features)}" if features else "",
        "container": _runtimes(slurm, runtime),
        "mpi": f"srun has: {', '.join(slurm.mpi)}" if slurm.mpi else "",
        "time_limit": f"At most {clock(most)} here" if most else "",
    }


def _rights(slurm: Survey, partition: Partition) -> list[Association]:
    """The user's associations that hold for the partition."""
    return [each for each in slurm.associations or () if each.partition in ("", partition.name)]


def _accounts(slurm: Survey, partition: Partition) -> list[str]:
    """The user's accounts that the partition accepts."""
    names = dict.fromkeys(right.account for right in _rights(slurm, partition))
    return [name for name in names if partition.accounts is None or name in partition.accounts]


def _runtimes(slurm: Survey, runtime: str | None) -> str:
    if slurm.pyxis:
        return "srun has --container-image: pyxis"
    return f"srun has no pyxis; on this machine there is {runtime or 'no container runtime'}"


def _gpus(nodes: list[Node]) -> tuple[str, int]:
    """Type and number of the GPUs that most nodes have."""
    kinds = Counter((kind, count) for node in nodes for kind, count in node.gpus.items())
    return kinds.most_common(1)[0][0] if kinds else ("", 0)


def _about(slurm: Survey, partition: Partition) -> str:
    nodes = slurm.nodes_of(partition.name)
    kind, count = _gpus(nodes)
    gpus = f", {count} GPUs {kind}".rstrip() if count else ""
    state = "" if partition.state == "UP" else f", {partition.state}"
    return f"{partition.name} ({len(nodes)} node{'s' if len(nodes) != 1 else ''}{gpus}{state})"


def _lines(
    model: type[BaseModel], values: Mapping[str, Any], remarks: Mapping[str, str], indent: str = ""
) -> Iterator[str]:
    """Each field of ``model``: its explanation as a comment, then the key, commented out if it has no value."""
    docs = field_docs(model)
    for name, field in model.model_fields.items():
        if name == "name":  # the name of the file
            continue
        for text in filter(None, (docs.get(name, ""), remarks.get(name))):
            mark = f"{indent}# "
            yield from textwrap.wrap(text.replace("``", ""), WIDTH, initial_indent=mark, subsequent_indent=mark)
        value = values.get(name)
        if name in SECTIONS:
            inner = {} if value is None else {key: item for key, item in value.items() if item is not None}
            mark = "" if inner else "# "
            yield f"{indent}{mark}{name}:"
            lines = _lines(SECTIONS[name], inner, {}, f"{indent}  ")
            yield from (line if inner else f"# {line}" for line in lines)
        elif value is not None:
            yield f"{indent}{name}: {_yaml(value)}"
        else:
            default = field.get_default(call_default_factory=True)
            yield f"{indent}# {name}: {_yaml(None if default is PydanticUndefined else default)}"
        if not indent:
            yield ""


def _yaml(value: Any) -> str:
    """A value in YAML's flow style; a text has quotes if it could be something else."""
    if value is None or isinstance(value, (bool, int, float)):
        return json.dumps(value)
    if isinstance(value, (tuple, list)):
        return f"[{', '.join(map(_yaml, value))}]"
    if isinstance(value, dict):
        return "{}" if not value else "{" + ", ".join(f"{key}: {_yaml(item)}" for key, item in value.items()) + "}"
    plain = re.fullmatch(r"[A-Za-z][\w./ -]*(?::\w+)?", value) and value.lower() not in ("true", "false", "null")
    return value if plain else json.dumps(value)
