"""Base of MaxText and PaXML: XLA, and launches with data parallelism and FSDP alone."""

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from benchrun.paths import table
from benchrun.runspec.spec import TrainingSpec
from benchrun.runspec.training import Fp8

from .base import SHARDING, SLURM_VARIABLES, Framework
from .environment import Variable

MIB = 1 << 20


def policies(framework: str) -> dict[str, tuple[str, ...] | None]:
    """Read `MemoryFacts.policies` from jax.csv: products that a layer stores,
    "nothing", or empty if not known.
    """
    rows = {}
    for row in table(__file__):
        if row["framework"] == framework:
            rows[row["policy"]] = row["stored"]
    found = {}
    for name, stored in rows.items():
        found[name] = tuple(stored.replace("nothing", "").split()) if stored else None
    return found


class Jax(Framework):
    """Pretrains dense models; XLA decides much that other frameworks take from the
    TrainingSpec.
    """

    tasks = frozenset({"pretrain"})
    fp8_recipes = frozenset({"delayed"})
    needs_slurm = True
    degrees = ()
    experts = False
    synthetic_data = False
    fixed = dict.fromkeys((*SHARDING, "training.grad_reduce_in_fp32"), "leaves this to XLA") | {
        "training.manual_gc_interval": "leaves garbage collection to Python",
        "data.num_workers": "reads no data with worker processes",
    }
    rank_variables = SLURM_VARIABLES
    numactl = False
    xla_flags: ClassVar[str]
    """Flags of XLA, without ``--xla_gpu_``."""
    combined_mib: ClassVar[Mapping[str, tuple[int, int, int]]]
    """The largest combined all-reduce, all-gather and reduce-scatter, by precision."""

    def refusals(self, spec: TrainingSpec) -> Iterator[str]:
        """FSDP by node, recompute by policy, one FP8 recipe."""
        layout, per_node = spec.layout, spec.ranks_per_node
        if per_node % layout.fsdp and (layout.fsdp % per_node or spec.num_gpus % layout.fsdp):
            legal = (
                f"divide a node's {per_node} GPUs, or be a multiple that divides {spec.num_gpus}"
            )
            yield f"fsdp ({layout.fsdp}) must {legal}"
        recompute, fp8 = spec.training.recompute, spec.training.fp8
        if recompute.granularity == "selective":
            yield f"{self.name} has no selective recompute: use granularity none or full, or a recompute.policy"
        if recompute.granularity == "full" and (recompute.method, recompute.num_layers) != (
            "uniform",
            1,
        ):
            how = f"recompute.method ({recompute.method}) must be uniform, num_layers ({recompute.num_layers}) 1"
            yield f"{self.name} recomputes every layer on its own: {how}"
        for name in ("format", "amax_history_len", "amax_compute_algo", "param_gather"):
            if spec.precision == "fp8" and getattr(fp8, name) != (default := getattr(Fp8(), name)):
                yield f"{self.name}'s FP8 is fixed: training.fp8.{name} must be {str(default).lower()}"

    def configuration(self, spec: TrainingSpec) -> dict[str, Any]:
        """Ranks along each axis. ICI: the links within a node; DCN: the network between
        nodes, as JAX calls them.

        Weights are split within a node first, then over nodes; gradients are averaged
        over the rest.
        """
        ici = min(spec.layout.fsdp, spec.ranks_per_node)
        dcn = spec.layout.fsdp // ici
        data = {"ici_data": spec.ranks_per_node // ici, "dcn_data": spec.num_nodes // dcn}
        return {"mesh": data | {"ici_fsdp": ici, "dcn_fsdp": dcn}}

    def environment(self, spec: TrainingSpec) -> dict[str, Variable]:
        """XLA's flags as published, up to 63 nodes."""
        names = ("all_reduce", "all_gather", "reduce_scatter")
        sizes = zip(names, self.combined_mib[spec.precision], strict=True)
        flags = [
            *self.xla_flags.split(),
            *(f"{name}_combine_threshold_bytes={size * MIB}" for name, size in sizes),
        ]
        value = " ".join(
            (*(f"--xla_gpu_{flag}" for flag in flags), "--xla_disable_hlo_passes=rematerialization")
        )
        stated = super().environment(spec)
        return stated | {"XLA_FLAGS": stated["XLA_FLAGS"]._replace(value=value)}
