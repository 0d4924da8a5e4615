"""argv: NeMo 2; stdin: train_nemo2.py by case; stdout: the objects that it makes of NeMo's classes."""

import json
import os
import sys
import types
from typing import Any

import loops
import standins

NEMO = sys.argv[1]
os.environ["RANK"] = "0"
# Lightning and what NeMo imports beside it: no configuration enters them.
standins.stand_in_for(
    *("lightning", "lightning_fabric", "lightning_utilities", "pytorch_lightning", "torchmetrics", "nemo_run"),
    *("omegaconf", "hydra", "fiddle", "libcst", "cloudpickle", "wrapt", "datasets", "einops", "sentencepiece"),
    *("transformers", "wget", "nemo.core", "nemo.collections.nlp", "nemo.collections.common", "nemo.utils.exp_manager"),
    *("nemo.collections.llm.modelopt", "nemo.export"),
)
standins.bare(
    NEMO,
    *(
        "nemo",
        "nemo.utils",
        "nemo.collections",
        "nemo.collections.llm",
        "nemo.collections.llm.fn",
        "nemo.collections.llm.gpt",
    ),
    *(
        "nemo.collections.llm.gpt.model",
        "nemo.collections.llm.gpt.data",
        "nemo.collections.llm.recipes",
        "nemo.lightning",
        "nemo.lightning.io",
    ),
    *("nemo.lightning.pytorch", "nemo.lightning.pytorch.plugins", "nemo.lightning.pytorch.strategies"),
    *("nemo.lightning.pytorch.callbacks", "nemo.lightning.pytorch.optim"),
)

from nemo.collections import llm  # noqa: E402
from nemo.collections.llm.gpt.model.base import GPTConfig  # noqa: E402
from nemo.collections.llm.gpt.model.deepseek import DeepSeekConfig  # noqa: E402
from nemo.lightning.pytorch import optim, plugins  # noqa: E402
from nemo.lightning.pytorch.optim.lr_scheduler import CosineAnnealingScheduler  # noqa: E402
from nemo.lightning.pytorch.optim.megatron import MegatronOptimizerModule  # noqa: E402
from nemo.lightning.pytorch.plugins.mixed_precision import MegatronMixedPrecision  # noqa: E402
from nemo.lightning.pytorch.strategies.megatron_strategy import MegatronStrategy  # noqa: E402

from nemo import lightning  # isort: skip  # noqa: E402

llm.GPTConfig, llm.DeepSeekConfig, lightning.MegatronStrategy, plugins.MegatronMixedPrecision = (
    GPTConfig,
    DeepSeekConfig,
    MegatronStrategy,
    MegatronMixedPrecision,
)
optim.MegatronOptimizerModule, optim.CosineAnnealingScheduler = MegatronOptimizerModule, CosineAnnealingScheduler
standins.transformer_engine("2.5.0")


class Given:
    """Takes any arguments and keeps them as attributes."""

    def __init__(self, *values: Any, **named: Any) -> None:
        self.values = values
        vars(self).update(named)


# What only holds the objects, or reads data.
lightning.Trainer, lightning.NeMoLogger, llm.GPTModel = Given, Given, Given
llm.MockDataModule, llm.PreTrainingDataModule, llm.FineTuningDataModule = Given, Given, Given
llm.peft = types.SimpleNamespace(LoRA=Given)


def profiled(callbacks: list[Any], steps: int) -> dict[str, list[int]]:
    """The steps that the profiling callback records, called as Lightning calls it."""
    named = ("NsysCallback", "PytorchProfilerCallback")
    callback = next((each for each in callbacks if type(each).__name__ in named), None)
    if callback is None:
        return {}
    device = types.SimpleNamespace(type="cuda")

    def trainer(complete: int) -> Any:
        strategy = types.SimpleNamespace(current_epoch_step=complete, root_device=device)
        return types.SimpleNamespace(global_step=complete, strategy=strategy)

    return loops.recorded(
        steps,
        lambda complete: callback.on_train_batch_start(trainer(complete), None, None, 0),
        lambda complete: callback.on_train_batch_end(trainer(complete), None, None, None, 0),
    )


def made(driver: str) -> dict[str, Any]:
    trained: list[Given] = []
    llm.train = lambda **named: trained.append(Given(**named))
    names: dict[str, Any] = {"__name__": "driver"}
    try:
        exec(compile(driver, "train_nemo2.py", "exec"), names)
        with loops.run_directory(), standins.conversations():
            names["main"]()
            recorded = profiled(trained[0].trainer.callbacks, trained[0].trainer.max_steps)
        trainer, optimizer = trained[0].trainer, trained[0].optim
        return {
            "transformer": standins.plain(trained[0].model.values[0]),
            "precision": standins.plain(trainer.plugins.dtype_config),
            "parallel": standins.plain(trainer.strategy.parallelism),
            "ddp": standins.plain(trainer.strategy.ddp_config),
            "communication": standins.plain(trainer.callbacks[-1].user_comm_overlap_cfg),
            "optimizer": standins.plain(optimizer.config),
            "schedule": standins.plain(optimizer.lr_scheduler),
            "profiled": recorded,
        }
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}


json.dump({case: made(driver) for case, driver in json.load(sys.stdin).items()}, sys.stdout)
