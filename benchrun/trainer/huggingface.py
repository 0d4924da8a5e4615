"""Hugging Face fine-tuning, full or LoRA: transformers' Trainer and peft with FSDP, on GPUs (NCCL) and CPUs (gloo).

One process per rank: ``python -m benchrun.trainer.huggingface --spec spec.json``. The weights are random, so nothing
is downloaded.
"""

from __future__ import annotations

import importlib
import os

from benchrun.spec.runspec import TrainingSpec
from benchrun.trainer import entry, ranks


def main(spec: TrainingSpec) -> None:
    """Train as one rank."""
    ranks.prepare_process(spec)
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    with entry.packages(spec, "pip install 'benchrun[hf]', or an image with transformers, peft and accelerate"):
        if spec.task == "lora":
            importlib.import_module("peft")  # before the ranks wait for each other
        from benchrun.trainer.hf.train import train
    train(spec)


if __name__ == "__main__":
    entry.run("benchrun.trainer.huggingface", __doc__, main)
