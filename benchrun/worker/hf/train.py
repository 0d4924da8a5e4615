"""The training loop of one rank: transformers' Trainer with a timer."""

import time
from collections.abc import Callable
from functools import partial
from itertools import islice
from typing import Any

import torch
from torch.distributed.tensor import DTensor
from torch.utils.data import DataLoader
from transformers import Trainer, TrainerCallback, TrainingArguments
from transformers.trainer_callback import PrinterCallback

from benchrun.errors import UserError
from benchrun.runspec.spec import TrainingSpec
from benchrun.worker import breakdown, ceiling, log, profiling, ranks
from benchrun.worker.clock import StepClock
from benchrun.worker.data import loader
from benchrun.worker.host import HostClock

from .data import dataset
from .model import build_model


def train(spec: TrainingSpec) -> None:
    """Train ``spec`` as this process's rank."""
    if spec.gpu == "CPU" and spec.num_gpus > 1 and torch.__version__ < (2, 11):
        # torch 2.8 over gloo sums the gradients instead of averaging them; 2.11 and
        # 2.13 are right.
        raise UserError(f"several CPU ranks need torch 2.11 or newer, this is {torch.__version__}")
    device = ranks.start_process_group(spec)
    first = torch.distributed.get_rank() == 0
    if first:
        packages = {name: name for name in ("transformers", "accelerate", "peft")}
        weights = "the same at every number of ranks"
        log.say(log.configuration(spec, packages, layers="transformers", initial_weights=weights))
    ceiling.measure(spec, {"dp": torch.distributed.group.WORLD})
    clock = StepClock(spec, streams=True)
    trainer = _Trainer(
        model=build_model(spec, device),
        args=_arguments(spec),
        train_dataset=dataset(spec),
    )
    trainer.remove_callback(PrinterCallback)
    trainer.spec, trainer.host = spec, HostClock(spec)
    trainer.add_callback(_Timed(spec, clock, trainer.host))
    with clock:
        trainer.train()
    if first:
        log.say(log.usage(spec))
    clock.keep()
    trainer.host.keep()
    one_more = trainer.after_training(profiling.steps_made(spec) + spec.training.breakdown)
    profiling.profile(spec, one_more)
    breakdown.measure(spec, one_more, trainer.host)


def _arguments(spec: TrainingSpec) -> Any:
    """The Trainer's arguments."""
    training = spec.training
    cpu = spec.gpu == "CPU"
    return TrainingArguments(
        output_dir=".",  # required; nothing is written
        max_steps=training.steps,
        per_device_train_batch_size=spec.mbs,
        gradient_accumulation_steps=spec.num_microbatches,
        average_tokens_across_devices=True,
        learning_rate=training.lr,
        lr_scheduler_type="cosine_with_min_lr",
        lr_scheduler_kwargs={"min_lr": training.min_lr},
        warmup_steps=training.lr_warmup_steps,
        optim="adamw_torch" if cpu else "adamw_torch_fused",
        adam_beta1=training.adam_betas[0],
        adam_beta2=training.adam_betas[1],
        adam_epsilon=training.adam_eps,
        weight_decay=training.weight_decay,
        max_grad_norm=training.clip_grad,
        seed=training.seed,
        logging_steps=1,
        logging_nan_inf_filter=False,  # it would print the last finite loss instead of NaN
        disable_tqdm=True,
        report_to="none",
        save_strategy="no",
        use_cpu=cpu,
    )


class _Trainer(Trainer):
    """The Trainer for a sharded model, with the order of samples of `worker.data`."""

    spec: TrainingSpec
    host: HostClock

    def get_batch_samples(self, *args: Any, **kwargs: Any) -> Any:
        """The micro-batches of a step, with the time that they are waited for."""
        return self.host.fetch(partial(super().get_batch_samples, *args, **kwargs))

    def create_accelerator_and_postprocess(self) -> None:
        """Keep accelerate from wrapping the model in DistributedDataParallel."""
        super().create_accelerator_and_postprocess()
        self.accelerator.prepare_model = lambda model, **_: model
        self.accelerator.clip_grad_norm_ = _clip

    def get_train_dataloader(self) -> DataLoader:
        """This rank's micro-batches; the samples of a step do not depend on the number
        of ranks."""
        return self._loader(self.spec.training.steps)

    def after_training(self, steps: int) -> Callable[[], None]:
        """A function that makes one of ``steps`` more steps, to be profiled."""
        batches = iter(self._loader(steps) if steps else ())
        count = self.spec.num_microbatches

        def step() -> None:
            fetched = self.host.fetch(lambda: list(islice(batches, count)))
            losses = [self.training_step(self.model, batch) for batch in fetched]
            self.accelerator.clip_grad_norm_(self.model.parameters(), self.args.max_grad_norm)
            self.optimizer.step()
            self.model.zero_grad()
            torch.stack(
                losses
            ).sum().item()  # the Trainer reads the loss after each step, which waits for the GPU

        return step

    def _loader(self, steps: int) -> DataLoader:
        return loader(self.spec, self.train_dataset, torch.distributed.get_rank(), steps)


def _clip(parameters: Any, max_norm: float, norm_type: float = 2) -> Any:
    """Clip the gradients; their norm over all ranks."""
    norm = torch.nn.utils.clip_grad_norm_(parameters, max_norm, norm_type)
    if isinstance(norm, DTensor):
        return norm.full_tensor()
    return norm


class _Timed(TrainerCallback):
    """Prints a dictionary per step, as the Trainer does, with the step's number and
    time."""

    def __init__(self, spec: TrainingSpec, clock: StepClock, host: HostClock) -> None:
        self._spec, self._clock, self._host = spec, clock, host
        self._started = 0.0

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Start the clock."""
        ranks.collect_garbage(self._spec, step=0)
        self._started = ranks.synchronised()
        self._clock.start()

    def on_optimizer_step(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Read the times of the step before, while the GPU works."""
        self._clock.read()

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        """Print a step's numbers, and at the end the Trainer's summary."""
        row = {}
        for name, value in (logs or {}).items():
            if name != "total_flos":
                row[name] = value
        if "loss" in row:
            # The Trainer has read the loss, which waits for the GPU: a step ends here,
            # and the next begins.
            ended = time.perf_counter()
            self._clock.end_step(state.global_step)
            self._host.end_step()
            row["global_step/max_steps"] = f"{state.global_step}/{self._spec.training.steps}"
            row["step_time_s"] = round(ended - self._started, 6)
            self._started = ended
            ranks.collect_garbage(self._spec, state.global_step)
        if state.is_world_process_zero:
            log.say(str(row))
