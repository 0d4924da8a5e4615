"""Entry point of one rank of the megatron-core worker."""

from __future__ import annotations

from benchrun.spec.runspec import TrainingSpec
from benchrun.trainer import entry, ranks


def main(spec: TrainingSpec) -> None:
    """Train as one rank."""
    ranks.prepare_process(spec)
    with entry.packages(spec, "pip install 'benchrun[train]', or an image with megatron-core"):
        from benchrun.trainer import te

        te.install()  # before megatron.core is imported
        from benchrun.trainer.train import train
    train(spec)


if __name__ == "__main__":
    entry.run("benchrun.trainer", __doc__, main)
