"""Buffers through which tensor-parallel ranks exchange pieces while matrix products run (transformer-engine)."""

from __future__ import annotations

import os

from benchrun.spec.runspec import RunSpec


def start_userbuffers(spec: RunSpec) -> None:
    """Allocate them, once, before the model is built; every rank calls this."""
    # CUDA IPC does the same as NVLink multicast, which not every machine allows.
    os.environ.setdefault("UB_SKIPMC", "1")
    from transformer_engine.pytorch.module import base

    modes = base.UserBufferQuantizationMode
    base.initialize_ub(
        shape=[spec.seq_length * spec.mbs // spec.layout.cp, spec.model.hidden_size],
        tp_size=spec.layout.tp,
        quantization_modes=[modes.FP8 if spec.precision == "fp8" else modes.NONE],
        bootstrap_backend="nccl",
    )
