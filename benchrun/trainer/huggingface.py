"""Hugging Face fine-tuning, full or LoRA: transformers' Trainer and peft with FSDP, on GPUs (NCCL) and CPUs (gloo).

One process per rank: ``python -m benchrun.trainer.huggingface --spec spec.json``. The weights are random, so nothing
is downloaded.
"""

from __future__ import annotations

import importlib
import os

from benchrun.spec.runspec import TrainingSpec
from benchrun.trainer import entry


def load(spec: TrainingSpec) -> entry.Train:
    """The training loop on transformers."""
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    if spec.task == "lora":
        importlib.import_module("peft")  # before the ranks wait for each other
    from benchrun.trainer.hf.train import train

    return train


if __name__ == "__main__":
    entry.run(load, install="pip install 'benchrun[hf]', or an image with transformers, peft and accelerate")
