"""What of a site may be published: a list of what is kept, so that a field nobody thought of is left out."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Any

from benchrun.spec.cluster import Binding, Cluster, Container
from benchrun.spec.identity import OF_THE_SITE, image_name, workload_env, workload_image
from benchrun.spec.images import is_path
from benchrun.spec.runspec import RunSpec

HIDDEN = "SITE"
"""Stands for a text of the site."""
CLUSTER = ("scheduler", "gpu", "gpus_per_node", "exclusive", "cpus_per_task")
CLUSTER_ENV = (
    *("CUDA_DEVICE_MAX_CONNECTIONS", "NCCL_CROSS_NIC", "NCCL_IB_DISABLE", "NCCL_IB_QPS_PER_CONNECTION"),
    *("NCCL_MAX_NCHANNELS", "NCCL_MIN_NCHANNELS", "NCCL_NET_GDR_LEVEL", "NCCL_NVLS_ENABLE", "NCCL_P2P_DISABLE"),
    *("NCCL_SHM_DISABLE", "NVSHMEM_DISABLE_NVLS", "OMP_NUM_THREADS", "TORCH_SYMM_MEM_DISABLE_MULTICAST"),
)
"""Variables of a site that change the speed; kept where the value is a number."""
ENV = ("schema_version", "benchrun", "commit", "python")
NODE = ("schema_version", "host", "machine", "cpu", "cpus", "memory_kib", "driver")
GPU = (
    *("name", "memory_mib", "power_limit_w", "sm_clock_mhz", "max_sm_clock_mhz", "memory_clock_mhz", "ecc", "pstate"),
)
PUBLIC_IMAGES = ("nvcr.io/nvidia/", "ghcr.io/nvidia/")
"""Registries that anyone can pull from; of another image its name and tag are kept."""
IN_LOGS = frozenset(
    {
        *("backward", "batch", "completed", "consumed", "default", "defaults", "elapsed", "epoch", "error"),
        *("forward", "global", "grad", "inconclusive", "iteration", "iterations", "learning", "loss", "micro"),
        *("model", "nan", "norm", "number", "params", "pass", "rank", "rate", "samples", "scale", "sec"),
        *("seconds", "size", "skipped", "slow", "step", "steps", "the", "throughput", "time", "tokens", "total"),
        *("train", "training", "validation", "warning", "zeros"),
    }
)
"""Words of step lines and verdicts: a partition may be called one of them."""
LIBRARIES = ("CUDA_", "FI_", "GLOO_", "NCCL_", "NVSHMEM_", "NVTE_", "OMPI_", "OMP_", "PYTORCH_", "TORCH_", "UCX_")
"""How variables begin whose names anyone knows."""


def public_spec(spec: RunSpec) -> RunSpec:
    """``spec`` with its identity, and of its cluster only the fields that do not identify the site."""
    own = {name: value for name, value in workload_env(spec).items() if not OF_THE_SITE.search(name)}
    replaced = {name: value for name, value in spec.replaced_env.items() if name in own}
    numbers = {n: value for n, value in spec.cluster.env.items() if n in CLUSTER_ENV and re.fullmatch(r"\d+", value)}
    sites = {**dict.fromkeys(replaced, HIDDEN), **numbers}
    cluster = Cluster(
        name=HIDDEN.lower(),
        container=Container(runtime=spec.cluster.container.runtime),
        binding=Binding(gpus_per_numa_node=spec.cluster.binding.gpus_per_numa_node),
        env=sites,
        **{name: getattr(spec.cluster, name) for name in CLUSTER},
    )
    image = workload_image(spec) if spec.image and is_path(spec.image) else public_image(spec.image)
    return spec.model_copy(
        update={
            "image": image,
            "replaced_image": None,
            "env": {**own, **sites},
            "replaced_env": replaced,
            "cluster": cluster,
        }
    )


def public_image(image: str | None) -> str | None:
    """An image as it may be named: whole where it is public."""
    return image if image is None or image.startswith(PUBLIC_IMAGES) else image_name(image)


def public_env(document: dict[str, Any]) -> dict[str, Any]:
    """env.json with versions and hardware alone. Hosts are still in it: ``scrubbed`` gives them other names."""
    worker = document.get("worker")
    return {
        **_only(document, ENV),
        "image": public_image(document.get("image")),
        "worker": {name: version for name, version in worker.items() if re.fullmatch(r"\d[\w.+-]*", str(version))}
        if isinstance(worker, dict)
        else None,
        "nodes": [_node(node) for node in document.get("nodes") or []],
    }


def site_words(spec: RunSpec) -> list[str]:
    """Every word that the site put into ``spec`` and ``public_spec`` leaves out, the longest first."""
    texts = [*_texts(spec.cluster.model_dump(mode="json", exclude={"description"}))]
    texts += [name for name in spec.cluster.env if not name.startswith(LIBRARIES)]
    if spec.image and spec.image != public_image(spec.image):
        texts.append(spec.image.removesuffix(image_name(spec.image)))
    public = IN_LOGS | set(re.findall(r"[a-z0-9]+", public_spec(spec).model_dump_json().lower()))
    words = {word for text in texts for word in (text, *re.split(r"[^\w.-]+", text))} | {spec.cluster.description}
    return sorted((word for word in words if _tells(word, public)), key=len, reverse=True)


def _tells(word: str, public: Collection[str]) -> bool:
    """Whether a word can tell a site from others: of some length, no number, not of public words alone."""
    parts = re.findall(r"[a-z0-9]+", word.lower())
    short = len(word) < (3 if re.search(r"\d", word) else 4)
    return not short and any(not p.isdigit() and p not in public for p in parts)


def _texts(value: Any) -> Iterator[str]:
    """Every text inside ``value``."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (dict, list)):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _texts(inner)


def _node(node: dict[str, Any]) -> dict[str, Any]:
    kernel = re.match(r"\d+(\.\d+)*", str(node.get("kernel", "")))
    found = {**_only(node, NODE), "kernel": kernel[0] if kernel else None}
    return {**found, "gpus": [_only(gpu, GPU) for gpu in node.get("gpus") or []]}


def _only(document: dict[str, Any], names: Collection[str]) -> dict[str, Any]:
    return {name: document[name] for name in names if name in document}
