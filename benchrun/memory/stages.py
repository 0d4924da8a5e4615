"""Load of each rank of a pipeline: its layers by kind, and its micro-batches."""

from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise

from benchrun.model.layers import kinds
from benchrun.runspec.spec import TrainingSpec


@dataclass
class Stage:
    """One rank of a pipeline."""

    in_flight: float
    """Micro-batches whose activations it holds at once (1F1B, or interleaved)."""
    halves: Counter[str] = field(default_factory=Counter)
    """Half layers by kind; Mamba-2 layers are one."""
    layers: int = 0
    embedding: bool = False
    output: bool = False
    predictions: int = 0
    """Multi-token predictions, whose layers count among the others."""

    @property
    def tables(self) -> int:
        """Matrices of the vocabulary; a prediction embeds the next token."""
        return (self.embedding or self.predictions > 0) + self.output


def stages(spec: TrainingSpec) -> list[Stage]:
    """The ranks of the pipeline of ``spec``, in order."""
    model, pp = spec.model, spec.layout.pp
    each = kinds(model)
    predicted = model.mamba.mtp_pattern if model.mamba else each[-1]
    ranks = [Stage(_in_flight(spec, rank)) for rank in range(pp)]
    for index, letters in enumerate(_letters(spec)):
        rank = ranks[index % pp]
        rank.embedding |= "E" in letters
        rank.output |= "L" in letters
        rank.predictions += letters.count("m")
        rank.halves.update("".join([predicted] * letters.count("m")))
        own, each = each[: letters.count("t")], each[letters.count("t") :]
        rank.halves.update("".join(own))
        rank.layers += len(own) + letters.count("m")
    return ranks


def _letters(spec: TrainingSpec) -> list[str]:
    """The letters of each (virtual) stage, as `Layout.stages` has them."""
    layout = spec.layout
    if layout.stage_list:
        return layout.stage_list
    # Where both ends count as layers, the outer stages have a layer less.
    ends = "x" * layout.account_for_embedding_and_loss
    text, count = ends + "t" * spec.model.num_layers + ends, layout.pp * layout.vp
    cuts = [len(text) * index // count for index in range(count + 1)]
    parts = [text[start:end] for start, end in pairwise(cuts)]
    parts[0] += "E"
    parts[-1] += "m" * spec.model.mtp_layers + "L"
    return parts


def _in_flight(spec: TrainingSpec, rank: int) -> float:
    pp, vp = spec.layout.pp, spec.layout.vp
    held: float = pp - rank
    if vp > 1:
        held = pp + (pp - 1 - 2 * rank) / vp
    return min(spec.num_microbatches, held)
