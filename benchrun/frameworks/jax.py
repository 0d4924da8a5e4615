"""Base of MaxText and PaXML: XLA, and launches with data parallelism and FSDP alone."""

from collections.abc import Iterator
from typing import Any, ClassVar

from benchrun.paths import table
from benchrun.runspec.spec import TrainingSpec
from benchrun.runspec.training import Fp8

from .base import SHARDING, SLURM_VARIABLES, Framework
from .environment import Variable


def policies(framework: str) -> dict[str, tuple[str, ...] | None]:
    """Read `MemoryFacts.policies` from jax.csv: products that a layer stores,
    "nothing", or empty if not known.
    """
    found = {}
    for row in table(__file__):
        if row["framework"] == framework:
            stored = row["stored"].replace("nothing", "").split()
            found[row["policy"]] = tuple(stored) if row["stored"] else None
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
    options = ("switches",)
    synthetic_data = False
    fixed = dict.fromkeys((*SHARDING, "training.grad_reduce_in_fp32"), "leaves this to XLA") | {
        "training.manual_gc_interval": "leaves garbage collection to Python",
        "data.num_workers": "reads no data with worker processes",
    }
    rank_variables = SLURM_VARIABLES
    numactl = False
    xla_flags: ClassVar[str]
    fp8_flags: ClassVar[str] = ""
    """Flags that replace those of ``xla_flags`` in FP8."""

    def refusals(self, spec: TrainingSpec) -> Iterator[str]:
        """FSDP by node, flags of XLA, recompute by policy, one FP8 recipe."""
        layout, per_node = spec.layout, spec.ranks_per_node
        if per_node % layout.fsdp and (layout.fsdp % per_node or spec.num_gpus % layout.fsdp):
            legal = (
                f"divide a node's {per_node} GPUs, or be a multiple that divides {spec.num_gpus}"
            )
            yield f"fsdp ({layout.fsdp}) must {legal}"
        for name in spec.training.switches:
            if not name.startswith("xla_"):
                yield f"training.switches has {name}: it must be a flag of XLA, such as xla_gpu_graph_level"
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
        """XLA's flags: as usual, but for those that ``training.switches`` states or
        drops (null).
        """
        flags = {}
        for flag in f"{self.xla_flags} {self.fp8_flags if spec.precision == 'fp8' else ''}".split():
            flags[flag.partition("=")[0]] = flag
        for name, value in spec.training.switches.items():
            flags.pop(name, None)
            if value is not None:
                flags[name] = f"{name}={value}"
        found = super().environment(spec)
        stated = " ".join(f"--{flag}" for flag in flags.values())
        return found | {"XLA_FLAGS": found["XLA_FLAGS"]._replace(value=stated)}
