"""transformer-engine's userbuffers: tensor-parallel communication while matrix products run."""

from __future__ import annotations

import os

from benchrun.spec.runspec import RunSpec


def start_userbuffers(spec: RunSpec) -> None:
    """Allocate the buffers: once, on every rank, before the model is built."""
    # Use CUDA IPC instead of NVLink multicast, which not every machine allows.
    os.environ.setdefault("UB_SKIPMC", "1")
    from transformer_engine.pytorch.module import base

    modes = base.UserBufferQuantizationMode
    base.initialize_ub(
        shape=[spec.seq_length * spec.mbs // spec.layout.cp, spec.model.hidden_size],
        tp_size=spec.layout.tp,
        quantization_modes=[modes.FP8 if spec.precision == "fp8" else modes.NONE],
        bootstrap_backend="nccl",
    )
