"""``python -m benchrun.worker.rl --spec spec.json``: one process, on a CPU or a GPU."""

import os
from pathlib import Path

from benchrun.errors import UserError
from benchrun.runspec.post_training import PostTrainingSpec
from benchrun.worker import entry


def _train(path: Path) -> None:
    spec = PostTrainingSpec.read(path)
    entry.prepare_process(spec)
    try:
        from benchrun.worker import ranks
        from benchrun.worker.rl.train import train
    except ImportError as error:
        hint = "pip install '.[rl]', or an image with transformers and trl"
        raise UserError(f"framework {spec.framework}: {error}", hint=hint) from error
    ranks.refuse_without_gpu(spec)
    train(spec)


if __name__ == "__main__":
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    file = entry.arguments("Post-train as one process.").spec
    entry.end_after(lambda: _train(file))
