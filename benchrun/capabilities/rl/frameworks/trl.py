"""trl: the post-training of this repository (benchrun/worker/rl): GRPO by trl's trainer
on a small model.

It learns to copy by a reward that a program checks, on random weights, so nothing is
downloaded.
"""

from collections.abc import Iterator

from benchrun.frameworks.base import LLAMA
from benchrun.model.features import FEATURES, features
from benchrun.runspec.post_training import PostTrainingSpec

from .base import PostTrainer


class Trl(PostTrainer):
    """One process, on a CPU or a GPU; generation by transformers or vLLM on the same
    device.
    """

    name = "trl"
    tasks = frozenset({"grpo"})
    precisions = frozenset({"fp32", "bf16"})
    engines = frozenset({"transformers", "vllm"})
    needs_gpu = False
    own_worker = True
    program = "-m benchrun.worker.rl --spec spec.json"
    step_lines = ("benchrun step: ",)

    def refusals(self, spec: PostTrainingSpec) -> Iterator[str]:
        """Apply the shared rules and those of trl: one process, a plain Llama, random
        weights.
        """
        yield from super().refusals(spec)
        if spec.num_gpus > 1:
            yield f"benchrun supports trl with one process: num_gpus ({spec.num_gpus}) must be 1"
        for stated in (
            name for name in ("policy", "reward_model", "prompts", "options") if getattr(spec, name)
        ):
            yield f"trl starts from random weights and has its own task: {stated} must be left out"
        if spec.rollouts != spec.gbs:
            yield f"trl makes one update a step: gbs ({spec.gbs}) must be its {spec.rollouts} responses"
        if spec.gpu == "CPU" and spec.generation.engine == "vllm":
            # Seen with vLLM 0.31: its linear layers on a CPU hold repacked weights
            # without a loader.
            yield "vLLM takes no new weights on a CPU: generation.engine must be transformers"
        if spec.gbs % spec.mbs:
            yield f"gbs ({spec.gbs}) must be a multiple of mbs ({spec.mbs})"
        wrong = []
        for name, value in LLAMA.items():
            if getattr(spec.model, name) != value:
                wrong.append(f"{name} must be {value}")
        wrong += [f"it has {FEATURES[name]}" for name in features(spec.model)]
        if spec.model.moe:
            wrong.append("it has experts")
        if wrong:
            yield f"trl trains plain Llamas here: {', '.join(wrong)}"
