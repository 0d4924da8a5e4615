"""RunSpec -> the meshes that JAX frameworks spread data parallelism and FSDP over: within a node, and between nodes."""

from __future__ import annotations

from typing import NamedTuple

from benchrun.spec.runspec import RunSpec


class Mesh(NamedTuple):
    """Ranks along each axis. ICI: the links within a node; DCN: the network between nodes, as JAX calls them."""

    ici_data: int
    ici_fsdp: int
    dcn_data: int
    dcn_fsdp: int


def mesh(spec: RunSpec) -> Mesh:
    """Weights are cut within a node first, then over nodes; gradients are averaged over the rest."""
    ici_fsdp = min(spec.layout.fsdp, spec.ranks_per_node)
    dcn_fsdp = spec.layout.fsdp // ici_fsdp
    return Mesh(spec.ranks_per_node // ici_fsdp, ici_fsdp, spec.num_nodes // dcn_fsdp, dcn_fsdp)
