"""argv: a NeMo 1 release, then its megatron-core; stdin: nemo1.yaml by case; stdout: the TransformerConfig it becomes.

The methods that turn the one into the other are read out of NeMo's files: its modules import half of its dependencies.
"""

from __future__ import annotations

import ast
import dataclasses
import json
import logging
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import standins
import yaml

standins.old_packages()

import torch  # noqa: E402
from megatron.core import ModelParallelConfig  # noqa: E402
from megatron.core.transformer import TransformerConfig  # noqa: E402
from megatron.core.utils import init_method_normal, scaled_init_method_normal  # noqa: E402

# Of NeMo 24.09's image.
standins.transformer_engine("1.11.0")
NLP = Path(sys.argv[1]) / "nemo/collections/nlp"
METHODS = ("build_transformer_config", "build_model_parallel_config")


class Configuration(dict[str, Any]):
    """What OmegaConf makes of a mapping, as far as these methods read it."""

    __getattr__ = dict.__getitem__


def functions(file: str, *names: str) -> list[ast.stmt]:
    tree = ast.parse((NLP / file).read_text())
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name in names]


def class_of(name: str, base: str, file: str) -> ast.stmt:
    (empty,) = ast.parse(f"class {name}({base}): pass").body
    assert isinstance(empty, ast.ClassDef)
    empty.body = functions(file, *METHODS)
    return empty


names: dict[str, Any] = {
    **{"torch": torch, "F": torch.nn.functional, "os": os, "logging": logging, "fields": dataclasses.fields},
    **{"TransformerConfig": TransformerConfig, "ModelParallelConfig": ModelParallelConfig, "HAVE_TE": True},
    "jit_fuser": lambda function: function,
    **{"init_method_normal": init_method_normal, "scaled_init_method_normal": scaled_init_method_normal},
    "OmegaConf": SimpleNamespace(to_container=lambda cfg, resolve: dict(cfg)),
    "mcore_supports_moe": lambda: True,
}
module = ast.Module(
    body=[
        *ast.parse("from __future__ import annotations").body,
        *functions("parts/utils_funcs.py", "activation_to_func"),
        *functions("modules/common/megatron/utils.py", "squared_relu"),
        class_of("Base", "object", "models/language_modeling/megatron_base_model.py"),
        class_of("Gpt", "Base", "models/language_modeling/megatron_gpt_model.py"),
    ],
    type_ignores=[],
)
exec(compile(ast.unparse(module), "nemo", "exec"), names)
logging.disable()


def made(text: str) -> dict[str, Any]:
    document = yaml.safe_load(text)
    model = names["Gpt"]()
    model.cfg, model.trainer = Configuration(document["model"]), SimpleNamespace(precision="bf16")
    model.torch_dtype = model.autocast_dtype = model.params_dtype = torch.bfloat16
    model.megatron_timers = None
    try:
        return {"transformer": standins.plain(model.build_transformer_config())}
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}


json.dump({case: made(text) for case, text in json.load(sys.stdin).items()}, sys.stdout)
