"""What the model is fed."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, NonNegativeInt

from benchrun.model import Frozen


class Synthetic(Frozen):
    """A data set that ``datagen tokens`` makes: files, so that loader, index and shuffling run as with real data.

    The limits here and below are datagen's, so that a wrong value is refused before the job starts.
    """

    tokens: int | None = Field(default=None, gt=0, le=10**15)
    """Size in tokens; by default as many as the run reads."""
    seed: int = Field(default=1234, ge=0, lt=1 << 63)
    """Seed of the generator."""
    documents: Literal["fixed", "lognormal", "zipf"] = "lognormal"
    """How the lengths of documents are distributed."""
    mean_length: int = Field(default=1024, gt=0, le=(2**31 - 1) // 1000)
    """Mean length of a document, in tokens."""
    distribution: Literal["uniform", "zipf"] = "zipf"
    """How often each token occurs."""
    exponent: float = Field(default=1.1, gt=0, le=8)
    """Exponent of the Zipf distribution of tokens."""
    learnable: bool = False
    """Tokens follow a rule with a known lowest loss: a loss that falls to it proves that training works."""


class Instructions(Frozen):
    """Conversations that ``datagen sft`` makes; ``datagen tokenizer`` makes their tokenizer.

    Framework hf reads their text; NeMo 2 and Megatron-Bridge read their tokens, packed to whole sequences.
    """

    samples: int = Field(default=10_000, gt=0, le=10**10)
    """Number of conversations; a run that reads more starts again with the first."""
    seed: int = Field(default=1234, ge=0, lt=1 << 63)
    """Seed of the generator."""
    lengths: Literal["fixed", "lognormal", "zipf"] = "lognormal"
    """How the lengths of conversations are distributed."""
    mean_length: int = Field(default=256, ge=4, le=1_000_000)
    """Mean length of a conversation: words for hf, tokens for the others."""


class Data(Frozen):
    """What the model is fed."""

    kind: Literal["mock", "synthetic"] = "mock"
    """``mock``: random tokens made by the framework itself; ``synthetic``: files, made before the run where missing."""
    num_workers: NonNegativeInt = 1
    """Data-loader processes per rank (0: in the training process)."""
    synthetic: Synthetic = Synthetic()
    """Only with ``kind: synthetic``."""
    instructions: Instructions = Instructions()
    """Only with ``kind: synthetic`` in a fine-tune, which reads conversations."""

    def of_tokens(self, tokens: int) -> Data:
        """The same with the size of a synthetic data set, where none is stated."""
        if self.kind == "mock" or self.synthetic.tokens is not None:
            return self
        return self.model_copy(update={"synthetic": self.synthetic.model_copy(update={"tokens": tokens})})
