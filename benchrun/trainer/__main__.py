"""One rank of the megatron-core worker: ``python -m benchrun.trainer --spec spec.json``."""

from benchrun.trainer import entry

if __name__ == "__main__":
    entry.run("benchrun.trainer.train", install="pip install '.[train]', or an image with megatron-core")
