"""GRPO by trl's trainer, with a timer around the stages of a step."""

import json
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from transformers import LlamaForCausalLM, TrainerCallback
from transformers.trainer_callback import PrinterCallback
from trl import GRPOConfig, GRPOTrainer

from benchrun.runspec.post_training import PostTrainingSpec
from benchrun.worker import device, log
from benchrun.worker.hf.model import llama_config

from . import engine, task


def train(spec: PostTrainingSpec) -> None:
    """Make the steps of ``spec``."""
    torch.manual_seed(spec.seed)
    engine.load(spec)
    log.say(_configuration(spec))
    config = llama_config(spec.model)
    config.use_cache = True
    with torch.device("cpu" if spec.gpu == "CPU" else "cuda"):
        # trl generates in this precision, and for that converts the weights that it
        # trains.
        model = LlamaForCausalLM(config).to(device.weight_type(spec.precision))
    words = task.tokenizer(spec.model.vocab_size)
    with engine.described(spec, model, words):
        trainer = _Trainer(
            model=model,
            args=_arguments(spec),
            reward_funcs=task.repeated,
            train_dataset=task.prompts(spec),
            processing_class=words,
        )
    trainer.remove_callback(PrinterCallback)
    trainer.add_callback(_Printed(spec, trainer))
    trainer.train()
    log.say(log.usage(spec))


def _configuration(spec: PostTrainingSpec) -> str:
    """The resolved configuration in a line of JSON."""
    import transformers
    import trl

    versions = {
        "trl": trl.__version__,
        "transformers": transformers.__version__,
        "torch": torch.__version__,
    }
    if spec.generation.engine == "vllm":
        versions["vllm"] = sys.modules["vllm"].__version__
    config = {
        "recipe": spec.recipe,
        "task": spec.task,
        "num_gpus": spec.num_gpus,
        "precision": spec.precision,
        "gbs": spec.gbs,
        "mbs": spec.mbs,
        "planned_steps": spec.steps,
        "device": device.name(gpu=spec.gpu != "CPU"),
        "settings": spec.settings,
        "versions": versions,
    }
    return f"benchrun config: {json.dumps(config)}"


def _arguments(spec: PostTrainingSpec) -> Any:
    """trl's arguments: one update of all responses a step."""
    cpu = spec.gpu == "CPU"
    return GRPOConfig(
        output_dir=".",  # required; nothing is written
        max_steps=spec.steps,
        num_generations=spec.generations_per_prompt,
        per_device_train_batch_size=spec.mbs,
        gradient_accumulation_steps=spec.gbs // spec.mbs,
        max_completion_length=spec.max_response_length,
        learning_rate=spec.lr,
        lr_scheduler_type="constant",
        beta=spec.kl_penalty,
        temperature=1.0,
        seed=spec.seed,
        bf16=spec.precision == "bf16",
        fp16=False,
        gradient_checkpointing=False,
        logging_steps=1,
        logging_nan_inf_filter=False,
        disable_tqdm=True,
        report_to="none",
        save_strategy="no",
        use_cpu=cpu,
        **engine.options(spec),
    )


class _Trainer(GRPOTrainer):
    """trl's trainer, which counts the seconds of each stage of a step, and the tokens."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.counted: dict[str, float] = defaultdict(float)
        self._scoring = False
        super().__init__(*args, **kwargs)
        if self.use_vllm:
            self._give_weights = self.vllm_generation.sync_weights
            self.vllm_generation.sync_weights = self._sync_weights

    def _sync_weights(self) -> None:
        with self._timed("weight_sync_s"):
            self._give_weights()

    @contextmanager
    def _timed(self, stage: str) -> Iterator[None]:
        began = _now()
        yield
        self.counted[stage] += _now() - began

    def _generate(self, *args: Any, **kwargs: Any) -> Any:
        with self._timed("generation_s"):
            made = super()._generate(*args, **kwargs)
        self.counted["tokens"] += sum(len(ids) for each in made[:2] for ids in each)
        return made

    def _generate_and_score_completions(self, *args: Any, **kwargs: Any) -> Any:
        self._scoring = True
        with self._timed("rollout_s"):
            scored = super()._generate_and_score_completions(*args, **kwargs)
        self._scoring = False
        return scored

    def _get_per_token_logps_and_entropies(self, *args: Any, **kwargs: Any) -> Any:
        if not self._scoring:  # a part of the update
            return super()._get_per_token_logps_and_entropies(*args, **kwargs)
        with self._timed("logprob_s"):
            return super()._get_per_token_logps_and_entropies(*args, **kwargs)


def _now() -> float:
    """Seconds, once the GPU has done what it was given."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter()


class _Printed(TrainerCallback):
    """Prints a line of JSON a step."""

    def __init__(self, spec: PostTrainingSpec, trainer: _Trainer) -> None:
        self._spec, self._trainer, self._began = spec, trainer, 0.0

    def on_train_begin(self, *_: Any, **__: Any) -> None:
        """Start the clock."""
        self._began = _now()

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        """Print the step that has ended; the next one begins."""
        if "loss" not in (logs or {}):
            return
        ended = _now()
        counted = self._trainer.counted
        time_s = ended - self._began
        tokens = counted["tokens"]
        sync_s = counted["weight_sync_s"]
        stages = {
            "generation_s": counted["generation_s"] - sync_s,
            "training_s": time_s - counted["rollout_s"],
        }
        if counted["logprob_s"]:
            stages["logprob_s"] = counted["logprob_s"]
        rates = {}
        for name, seconds in stages.items():
            rates[f"{name[:-2]}_tokens_per_s_per_gpu"] = tokens / seconds
        if sync_s:
            stages["weight_sync_s"] = sync_s
        row = {
            "step": state.global_step,
            "step_time_s": time_s,
            **stages,
            **rates,
            "tokens": tokens,
            "reward": logs.get("reward"),
            "response_tokens": logs.get("completions/mean_length"),
            "policy_loss": logs["loss"],
            "grad_norm": logs.get("grad_norm"),
        }
        stated = {}
        for name, value in row.items():
            if value is not None:
                stated[name] = round(float(value), 6)
        log.say(f"benchrun step: {json.dumps({**stated, 'step': state.global_step})}")
        counted.clear()
        self._began = _now()
