"""Nodes that a site file's keys leave."""

import re
from collections.abc import Callable, Iterator, Sequence

from benchrun.jobs.commands import output
from benchrun.runspec.cluster import Cluster

from .survey import Node

MEMORY = {"": 1, "M": 1, "G": 1024, "T": 1024 * 1024, "K": 1 / 1024}
"""Unit of sbatch --mem -> MiB."""
_HOSTS = re.compile(r"([^\[\],\s]|\[\d+(-\d+)?(,\d+(-\d+)?)*\])+")
"""One item of a host list."""
Filter = tuple[
    str, Callable[[Node], bool], Callable[[Sequence[Node]], str], Callable[[Sequence[Node]], str]
]
"""Key of the site file, the nodes that it leaves, what is wrong if it leaves none, what
would be right.
"""


def named_nodes(text: str | None) -> list[str]:
    """The nodes of a host list such as ``n[1-3],m7``, as Slurm expands it; empty if
    none is named.
    """
    if not text:
        return []
    return (output("scontrol", "show", "hostnames", text) or text).split()


def is_host_list(text: str) -> bool:
    """Whether Slurm can expand a host list: every bracket is closed, and has numbers
    and ranges.
    """
    return re.fullmatch(rf"{_HOSTS.pattern}(,{_HOSTS.pattern})*", text) is not None


def folded(hosts: Sequence[str]) -> str:
    """Nodes as Slurm writes them: ``hgx-[01-04,07]``."""
    groups: dict[tuple[str, int], list[str]] = {}
    for host in dict.fromkeys(hosts):
        stem = host.rstrip("0123456789")
        number = host[len(stem) :]
        groups.setdefault((stem, len(number)), []).append(number)
    texts = []
    for (stem, _), numbers in groups.items():
        spans: list[list[str]] = []
        for number in sorted(numbers):
            if spans and int(number) == int(spans[-1][-1]) + 1:
                spans[-1] = [spans[-1][0], number]
            else:
                spans.append([number])
        inner = ",".join(map("-".join, spans))
        texts.append(stem + (f"[{inner}]" if len(numbers) > 1 else inner))
    return ", ".join(texts)


def filters(site: Cluster, partition: str) -> Iterator[Filter]:
    """Conditions of a job on each node, in the order in which a person would look."""
    listed = named_nodes(site.nodelist)
    excluded = named_nodes(site.exclude)
    if listed:
        where = f"nodelist {site.nodelist} has no node of partition {partition}"
        yield "nodelist", lambda node: node.name in listed, lambda _: where, _names
    if excluded:
        yield (
            "exclude",
            lambda node: node.name not in excluded,
            lambda _: f"it leaves no node of {partition}",
            _names,
        )
    if site.constraint:
        constraint = site.constraint
        wrong = f"no node of partition {partition} has the features {constraint}"
        yield (
            "constraint",
            lambda node: satisfies(node.features, constraint),
            lambda _: wrong,
            _features,
        )
    if site.gres and site.gres.split(":")[0] in ("gpu", "gres/gpu"):
        kind = site.gres.partition(":")[2].lower()
        if kind:
            absent = f"no node of partition {partition} has GPUs of type {kind}"
            yield "gres", lambda node: kind in node.gpus, lambda _: absent, _gpus
        else:
            yield (
                "gres",
                lambda node: bool(node.gpus),
                lambda _: f"partition {partition} has no GPUs",
                _gpus,
            )

        def enough(node: Node) -> bool:
            return (
                node.gpus.get(kind, 0) if kind else sum(node.gpus.values())
            ) >= site.gpus_per_node

        few = f"no node has {site.gpus_per_node} GPUs"
        yield "gpus_per_node", enough, lambda _: few, _gpus
    cpus = (site.cpus_per_task or 1) * site.gpus_per_node
    key = "gpus_per_node"
    if site.cpus_per_task:
        key = "cpus_per_task"
    yield key, lambda node: node.cpus >= cpus, lambda _: f"a node would need {cpus} CPUs", _cpus
    if site.mem and (needed := memory_mib(site.mem)):
        yield (
            "mem",
            lambda node: node.memory_mib >= needed,
            lambda _: f"no node has {site.mem} of memory",
            _memory,
        )


def satisfies(features: Sequence[str], constraint: str) -> bool:
    """Whether a node's features can satisfy a constraint: ``a&b``, ``a|b``, ``[a|b]``,
    ``a*4``.

    Of brackets and counts only the names are read, so a true answer may still be
    refused.
    """
    alternatives = re.split(r"\|", re.sub(r"\*\d+|[\[\]()]", "", constraint))
    return any(
        all(word.strip() in features for word in re.split(r"[&,]", each)) for each in alternatives
    )


def _names(nodes: Sequence[Node]) -> str:
    return f"its nodes: {', '.join(sorted(node.name for node in nodes)[:8])}"


def _features(nodes: Sequence[Node]) -> str:
    features = sorted({feature for node in nodes for feature in node.features})
    if not features:
        return "its nodes have no features"
    return f"features there: {', '.join(features)}"


def _gpus(nodes: Sequence[Node]) -> str:
    counts = sorted(
        {
            f"gpu:{kind}:{count}" if kind else f"gpu:{count}"
            for node in nodes
            for kind, count in node.gpus.items()
        }
    )
    if not counts:
        return "its nodes have no GPUs"
    return f"its nodes have {', '.join(counts)}"


def _cpus(nodes: Sequence[Node]) -> str:
    return f"the largest has {max(node.cpus for node in nodes)}"


def _memory(nodes: Sequence[Node]) -> str:
    return f"the largest has {max(node.memory_mib for node in nodes)}M"


def memory_mib(text: str) -> float | None:
    """sbatch's --mem in MiB; None if it cannot be read. ``0`` is all of the node's
    memory.
    """
    match = re.fullmatch(r"(\d+)([KMGT]?)B?", text.strip().upper())
    if not match:
        return None
    return int(match[1]) * MEMORY[match[2]]
