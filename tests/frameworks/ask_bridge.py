"""argv: Megatron-Bridge; stdin: train_megatron_bridge.py by case; stdout: the ConfigContainer that it trains with.

A case is a driver, for 512 ranks, or a mapping of what the driver meets: ``driver``, ``ranks``, ``gpu``, ``env``.
"""

import importlib
import json
import os
import sys
import types
import typing
from typing import Any
from unittest import mock

import loops
import standins
import torch

if sys.version_info < (3, 12):  # which it asks for, for this alone
    typing.override = lambda function: function
standins.stand_in_for(
    *("transformers", "datasets", "omegaconf", "hydra", "wandb", "modelopt", "peft"),
    *("megatron.bridge.training.pretrain", "megatron.bridge.training.gpt_step", "megatron.bridge.models.conversion"),
    "megatron.energon",
    *("megatron.core.transformer.moe.ops.paged_stash", "megatron.core.transformer.moe.paged_stash"),  # need Triton
)
standins.bare(sys.argv[1], "megatron.bridge", "megatron.bridge.models", "megatron.bridge.training")

import megatron.core.transformer  # noqa: E402, F401
from megatron.bridge.training.config import runtime_config_update  # noqa: E402

profiling = importlib.import_module("megatron.bridge.training.profiling")  # its package stands for every other name
standins.transformer_engine("2.11.0")
os.environ["RANK"] = "0"
GROUPS = ("model", "mixed_precision", "train", "optimizer", "scheduler", "ddp", "comm_overlap", "dataset")


def profiled(config: Any) -> dict[str, list[int]]:
    """The steps that are recorded, by the calls of megatron.bridge.training.train."""
    settings, rank = config.profiling, 0
    if not settings.use_nsys_profiler and not settings.use_pytorch_profiler:
        return {}
    profiler, context = None, None
    if settings.use_pytorch_profiler and profiling.should_profile_rank(settings, rank):
        profiler = profiling.initialize_pytorch_profiler(settings, config.logger.tensorboard_dir)
        profiler.start()

    def begin(complete: int) -> None:
        nonlocal context
        context = profiling.handle_profiling_step(settings, complete, rank, profiler) or context

    def end(complete: int) -> None:
        profiling.handle_profiling_stop(settings, complete, rank, profiler, context)

    return loops.recorded(config.train.train_iters, begin, end)


def made(case: str | dict[str, Any]) -> dict[str, Any]:
    asked = {"driver": case} if isinstance(case, str) else case
    if gpu := asked.get("gpu"):
        card = types.SimpleNamespace(name=f"NVIDIA {gpu}", major=9 if gpu.startswith("H") else 10, minor=0)
        torch.cuda.get_device_properties = lambda *args: card
        torch.cuda.get_device_capability = lambda *args: (card.major, card.minor)
    with mock.patch.dict(os.environ, {"WORLD_SIZE": str(asked.get("ranks", 512)), **asked.get("env", {})}):
        return trained_with(asked["driver"])


def trained_with(driver: str) -> dict[str, Any]:
    trained: list[Any] = []
    names: dict[str, Any] = {"__name__": "driver"}
    try:
        exec(compile(driver, "train_megatron_bridge.py", "exec"), names)
        names["pretrain"] = lambda config, step: trained.append(config)
        with standins.conversations():
            names["main"]()
            # What the real pretrain does first; it ends with ConfigContainer.validate.
            runtime_config_update(trained[0])
        with loops.run_directory():
            recorded = profiled(trained[0])
        return {name: standins.plain(getattr(trained[0], name)) for name in GROUPS} | {"profiled": recorded}
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}


json.dump({name: made(case) for name, case in json.load(sys.stdin).items()}, sys.stdout)
