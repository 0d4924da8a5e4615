"""Every legal layout of a run: the same model, GPUs and batch, spread otherwise, in
other micro-batches.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from benchrun import hardware
from benchrun.capabilities.predict import runs
from benchrun.capabilities.predict.prediction import Prediction, predict
from benchrun.errors import UserError
from benchrun.frameworks.registry import framework
from benchrun.memory import impossible
from benchrun.recipes.layout import refusals
from benchrun.runspec.spec import TrainingSpec
from benchrun.vocabulary import data_parallel

SIZES = ("tp", "pp", "vp", "cp", "ep", "mbs")
"""Sizes that a search may vary."""
Shown = Callable[[Sequence[tuple[int, ...]]], Iterable[tuple[int, ...]]]
"""Passes on what a search goes through, and may show how far it is."""

STAND_IN = hardware.Gpu(
    gpu="a processor of unknown speed", arch="Hopper", memory_gib=64, peak_bf16_tflops=0.2, peak_fp8_tflops=None,
    gpus_per_node=8, memory_gb_per_s=10, nvlink_gb_per_s=2, nic_gb_per_s=1, nvlink_domain=8, source="a laptop's order",
)  # fmt: skip
"""GPU in place of an unknown processor: only the order of its layouts means something;
the first jobs tell its speed.
"""


@dataclass(frozen=True)
class Candidate:
    """One legal layout and how long its step should take."""

    spec: TrainingSpec
    prediction: Prediction

    @property
    def overrides(self) -> tuple[str, ...]:
        """Words of ``--set`` that launch it."""
        layout = self.spec.layout
        sizes = {}
        for name in (*SIZES[:-1], "etp", "fsdp"):
            sizes[f"layout.{name}"] = getattr(layout, name)
        stated = {
            **sizes,
            "layout.sequence_parallel": str(layout.sequence_parallel).lower(),
            "mbs": self.spec.mbs,
        }
        if layout.pp == 1:  # the recipe's pipeline may have it
            stated["layout.account_for_embedding_and_loss"] = "false"
        return tuple(f"{name}={value}" for name, value in stated.items())

    @property
    def name(self) -> str:
        """The sizes above 1, as in ``tp2 pp2 mbs4``."""
        words = []
        for name in (*SIZES[:-1], "fsdp"):
            size = getattr(self.spec.layout, name)
            if size > 1:
                words.append(f"{name}{size}")
        return " ".join([*words, f"mbs{self.spec.mbs}"])


def ranked(
    spec: TrainingSpec,
    varied: Mapping[str, Sequence[int]] | None = None,
    shown: Shown = iter,
) -> list[Candidate]:
    """Every legal layout of ``spec`` that may fit into memory, the one predicted to be
    fastest first.

    ``varied``: the values of some `SIZES`; of the others every possible one. A GPU or
    CPU whose speed is not known is taken for `STAND_IN`. ``shown`` goes through what is
    tried, which takes seconds with experts. UserError if no layout is legal.
    """
    candidates = []
    for each in legal(spec, varied or {}, shown):
        load = runs.workload_of_run(each, stand_in=STAND_IN)
        candidates.append(Candidate(each, predict(load)))
    if not candidates:
        raise UserError(
            f"no layout of {spec.recipe} on {spec.num_gpus} GPUs is legal and fits into memory"
        )
    return sorted(candidates, key=lambda each: each.prediction.median)


def legal(
    spec: TrainingSpec, varied: Mapping[str, Sequence[int]], shown: Shown = iter
) -> Iterator[TrainingSpec]:
    """Every run like ``spec`` that no rule refuses; the memory's rule refuses only what
    is beyond its error.
    """
    for name in varied:
        if name not in SIZES:
            raise UserError(f"a search cannot vary {name}", hint=f"it varies {', '.join(SIZES)}")
    launched = framework(spec.framework)
    possible = sizes(spec) | dict(varied)
    *layouts, micro_batches = (possible[name] for name in SIZES)
    for chosen in shown([*product(*layouts)]):
        for mbs in sorted(micro_batches):
            one = _spread(spec, dict(zip(SIZES, (*chosen, mbs), strict=True)))
            if one is None:
                continue
            if not refusals(one, launched):
                yield one
            elif impossible(one):
                break  # a larger micro-batch needs more memory


def sizes(spec: TrainingSpec) -> dict[str, Sequence[int]]:
    """Values of each size that may be legal."""
    layers = spec.model.num_layers + 2 * spec.layout.account_for_embedding_and_loss
    moe = spec.model.moe
    if spec.layout.stages:  # it says which layers each stage has
        layers = spec.layout.pp * spec.layout.vp
    ranks = _divisors(spec.num_gpus)
    return {
        "tp": [size for size in ranks if size <= spec.cluster.gpus_per_node],
        "pp": [size for size in ranks if layers % size == 0],
        "vp": _divisors(layers),
        "cp": [size for size in ranks if size <= spec.cluster.gpus_per_node],
        "ep": [size for size in ranks if moe.num_experts % size == 0] if moe else [1],
        "mbs": _divisors(spec.gbs),
    }


def _spread(spec: TrainingSpec, chosen: Mapping[str, int]) -> TrainingSpec | None:
    """``spec`` in another layout; None if it does not divide the GPUs or the batch, or
    only repeats another.
    """
    tp, pp, vp, cp, mbs = chosen["tp"], chosen["pp"], chosen["vp"], chosen["cp"], chosen["mbs"]
    ep, before = chosen["ep"], spec.layout
    dp = data_parallel(spec.num_gpus, tp * pp * cp)
    if spec.num_gpus % (tp * pp * cp) or spec.gbs % (mbs * dp) or (vp > 1 and pp == 1):
        return None
    etp = tp if spec.model.moe and ep == 1 else 1
    if spec.num_gpus % (pp * ep * etp) or (vp > 1 and spec.gbs % (mbs * dp * pp)):
        return None
    if before.stages:
        divided = pp * vp == before.pp * before.vp
    else:
        ends = 2 * (before.account_for_embedding_and_loss and pp > 1)
        divided = (spec.model.num_layers + ends) % (pp * vp) == 0
    if not divided:
        return None
    update = {
        **{name: chosen[name] for name in SIZES[:-1]},
        "etp": etp,
        "sequence_parallel": tp > 1,
        "fsdp": dp * cp if before.fsdp > 1 else 1,
        "account_for_embedding_and_loss": before.account_for_embedding_and_loss and pp > 1,
    }
    return spec.resized(layout=before.model_copy(update=update), mbs=mbs)


def _divisors(number: int) -> list[int]:
    return [size for size in range(1, number + 1) if number % size == 0]
