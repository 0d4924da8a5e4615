"""argv: Megatron-Bridge; stdin: train_megatron_bridge.py by case; stdout: the ConfigContainer that it trains with."""

import json
import os
import sys
import typing
from typing import Any

import standins

if sys.version_info < (3, 12):  # which it asks for, for this alone
    typing.override = lambda function: function
standins.stand_in_for(
    *("transformers", "datasets", "omegaconf", "hydra", "wandb", "modelopt", "nvidia_resiliency_ext", "peft"),
    *("megatron.bridge.training.pretrain", "megatron.bridge.training.gpt_step"),
)
standins.bare(sys.argv[1], "megatron.bridge", "megatron.bridge.models", "megatron.bridge.training")

import megatron.core.transformer  # noqa: E402, F401
from megatron.bridge.training.config import runtime_config_update  # noqa: E402

standins.transformer_engine("2.11.0")
os.environ["WORLD_SIZE"] = "512"
GROUPS = ("model", "mixed_precision", "train", "optimizer", "scheduler", "ddp", "comm_overlap", "dataset")


def made(driver: str) -> dict[str, Any]:
    trained: list[Any] = []
    names: dict[str, Any] = {"__name__": "driver"}
    try:
        exec(compile(driver, "train_megatron_bridge.py", "exec"), names)
        names["pretrain"] = lambda config, step: trained.append(config)
        names["main"]()
        # What the real pretrain does first; it ends with ConfigContainer.validate.
        runtime_config_update(trained[0])
        return {name: standins.plain(getattr(trained[0], name)) for name in GROUPS}
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}


json.dump({case: made(driver) for case, driver in json.load(sys.stdin).items()}, sys.stdout)
