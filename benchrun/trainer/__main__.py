"""One rank of the megatron-core worker: ``python -m benchrun.trainer --spec spec.json``."""

from __future__ import annotations

from benchrun.spec.runspec import TrainingSpec
from benchrun.trainer import entry


def load(_: TrainingSpec) -> entry.Train:
    """The training loop on megatron.core."""
    from benchrun.trainer import te

    te.install()  # before megatron.core is imported
    from benchrun.trainer.train import train

    return train


if __name__ == "__main__":
    entry.run(load, install="pip install 'benchrun[train]', or an image with megatron-core")
