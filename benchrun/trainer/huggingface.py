"""A Hugging Face fine-tune, whole or LoRA: transformers' Trainer and peft over FSDP, on GPUs (NCCL) and CPUs (gloo).

One process a rank, as the other worker: ``python -m benchrun.trainer.huggingface --spec spec.json``. The model is made
from its dimensions with random weights, so that nothing is downloaded; the steps are timed here, one by one.
"""

from __future__ import annotations

import importlib
import os

from benchrun.spec.runspec import RunSpec
from benchrun.trainer import entry, ranks


def main(spec: RunSpec) -> None:
    """Train one rank's part."""
    ranks.prepare_process(spec)
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    with entry.packages("hf", "pip install 'benchrun[hf]', or an image with transformers, peft and accelerate"):
        if spec.task == "lora":
            importlib.import_module("peft")  # needed where the model is built, when all ranks have met
        from benchrun.trainer.hf.train import train
    train(spec)


if __name__ == "__main__":
    entry.run("benchrun.trainer.huggingface", __doc__, main)
