"""How a model is spread over GPUs."""

from __future__ import annotations

from pydantic import PositiveInt

from benchrun.model.base import Frozen


class Layout(Frozen):
    """How the model is spread over the GPUs. tp * pp * cp * dp = number of GPUs."""

    tp: PositiveInt = 1
    """Tensor parallel."""
    pp: PositiveInt = 1
    """Pipeline parallel."""
    cp: PositiveInt = 1
    """Context parallel."""
    vp: PositiveInt = 1
    """Virtual pipeline stages per rank (1: no interleaving)."""
    ep: PositiveInt = 1
    """Expert parallel; taken out of dp * cp (and tp, where etp is smaller)."""
    etp: PositiveInt = 1
    """Tensor parallel inside an expert."""
    sequence_parallel: bool = False
    """Activations are split along the sequence where tp leaves them whole."""
    fsdp: PositiveInt = 1
    """Data-parallel ranks that share weights, gradients and optimizer states (1: every rank holds them whole)."""
    account_for_embedding_and_loss: bool = False
    """Embedding and output layer count as one layer each in the split of layers over pipeline stages."""
