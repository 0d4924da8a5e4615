"""One rank of the megatron-core worker: ``python -m benchrun.worker --spec spec.json``."""

from benchrun.worker import entry

if __name__ == "__main__":
    entry.run(
        "benchrun.worker.train", install="pip install '.[train]', or an image with megatron-core"
    )
