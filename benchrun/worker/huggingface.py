"""Hugging Face fine-tuning, full or LoRA: transformers' Trainer and peft with FSDP, on
GPUs (NCCL) and CPUs (gloo).

One process per rank: ``python -m benchrun.worker.huggingface --spec spec.json``. The
weights are random, so nothing is downloaded.
"""

import os

from . import entry

if __name__ == "__main__":
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    packages = "pip install '.[hf]', or an image with transformers, peft and accelerate"
    entry.run("benchrun.worker.hf.train", install=packages, lora="peft")
