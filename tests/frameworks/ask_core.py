"""stdin: arguments by case and class; stdout: the objects that the megatron-core on the path makes of them."""

import json
import sys
from typing import Any

import standins

standins.old_packages()

import torch  # noqa: E402
from megatron.core.distributed import DistributedDataParallelConfig  # noqa: E402
from megatron.core.optimizer import OptimizerConfig  # noqa: E402
from megatron.core.transformer import TransformerConfig, transformer_config  # noqa: E402

standins.transformer_engine("2.11.0")
CLASSES = {"transformer": TransformerConfig, "optimizer": OptimizerConfig, "ddp": DistributedDataParallelConfig}


def squared_relu(x: torch.Tensor) -> torch.Tensor:
    """megatron-core has one since 0.14."""
    return torch.relu(x) ** 2


ACTIVATIONS = {"silu": torch.nn.functional.silu, "gelu": torch.nn.functional.gelu, "squared_relu": squared_relu}


def of_torch(name: str, value: Any) -> Any:
    if name == "activation_func":
        return ACTIVATIONS[value]
    return getattr(torch, value) if name.endswith("_dtype") and name != "moe_router_dtype" else value


def class_of(name: str, arguments: dict[str, Any]) -> Any:
    """The class of this name; with latent attention the transformer's is another one."""
    latent = name == "transformer" and "multi_latent_attention" in arguments
    return transformer_config.MLATransformerConfig if latent else CLASSES[name]


def made(arguments: dict[str, dict[str, Any]]) -> dict[str, Any]:
    try:
        return {
            name: standins.plain(
                class_of(name, arguments[name])(**{key: of_torch(key, value) for key, value in arguments[name].items()})
            )
            for name in CLASSES
        }
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}


json.dump({case: made(arguments) for case, arguments in json.load(sys.stdin).items()}, sys.stdout)
