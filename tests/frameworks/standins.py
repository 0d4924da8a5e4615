"""Stand-ins for packages that are not installed, for the processes in which released frameworks are asked.

transformer-engine and apex are needed on GPUs alone: megatron-core only asks whether they are there. Everything else
here is imported by a framework's modules and never entered by its configuration.
"""

import abc
import contextlib
import importlib
import importlib.abc
import importlib.machinery
import sys
import tempfile
import types
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any


class Standin(abc.ABCMeta):
    """A class that can be anything an import may be used as: base class, decorator, exception, type, function."""

    def __getattr__(cls, name: str) -> Any:
        return standin(name)

    def __or__(cls, other: Any) -> Any:
        return cls

    __ror__ = __or__


def standin(name: str) -> Any:
    """A stand-in of this name. Dunder names are refused: Python asks for them to learn what an object can do."""
    if name.startswith("__"):
        raise AttributeError(name)

    def new(cls: Any, *args: Any, **kwargs: Any) -> Any:
        is_decorator = "is_standin" in cls.__dict__ and len(args) == 1 and not kwargs and callable(args[0])
        return args[0] if is_decorator else object.__new__(cls)

    members = {
        "is_standin": True,
        "__new__": new,
        "__init__": lambda self, *args, **kwargs: None,
        "__call__": lambda self, *args, **kwargs: args[0] if len(args) == 1 and callable(args[0]) else self,
        "__class_getitem__": classmethod(lambda cls, key: cls),
        "__getattr__": lambda self, name: standin(name),
    }
    return Standin(name, (), members)


class Module(types.ModuleType):
    """A module that has every name."""

    def __init__(self, name: str, path: Iterable[str] = ()) -> None:
        super().__init__(name)
        self.__path__ = list(path)
        self.__version__ = "0.0"

    def __getattr__(self, name: str) -> Any:
        value = standin(name)
        setattr(self, name, value)
        return value


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds a stand-in for every module of these packages."""

    def __init__(self, packages: Iterable[str]) -> None:
        self.packages = tuple(packages)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        inside = any(name == package or name.startswith(f"{package}.") for package in self.packages)
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if inside else None

    def create_module(self, spec: Any) -> Module:
        return Module(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        """Nothing is in it."""


def stand_in_for(*packages: str) -> None:
    """Let these packages be found, whatever is imported from them."""
    sys.meta_path.insert(0, Finder(packages))


def bare(root: str, *packages: str) -> None:
    """Let the modules of these packages be imported from ``root`` one by one, without what their __init__ imports."""
    for name in packages:
        sys.modules[name] = Module(name, [f"{root}/{name.replace('.', '/')}"])
        parent, _, child = name.rpartition(".")
        if parent in sys.modules:
            setattr(sys.modules[parent], child, sys.modules[name])


@contextlib.contextmanager
def conversations() -> Iterator[None]:
    """Start a driver with a folder that has packed conversations by name: the classes ask whether they are there."""
    before = sys.argv
    with tempfile.TemporaryDirectory() as folder:
        for name in ("sft.npy", "sft.metadata.json"):
            (Path(folder) / name).touch()
        sys.argv = ["driver", folder]
        try:
            yield
        finally:
            sys.argv = before


def old_packages() -> None:
    """Let megatron-core 0.7 find ``packaging`` where setuptools once had it. Call it before the import."""
    import packaging

    legacy = types.ModuleType("pkg_resources")
    legacy.packaging = packaging  # type: ignore[attr-defined]
    sys.modules.setdefault("pkg_resources", legacy)


class FusedAdam:
    """With the arguments of transformer-engine's, of which megatron-core asks whether it has them."""

    def __init__(
        self, master_weight_dtype: Any, exp_avg_dtype: Any, exp_avg_sq_dtype: Any, use_decoupled_grad: bool
    ) -> None:
        raise NotImplementedError


def transformer_engine(version: str) -> None:
    """Answer megatron-core, once imported, that this version is there, with its kernels for RoPE and permutation."""
    import packaging.version
    from megatron.core import utils
    from megatron.core.models.common.embeddings import rotary_pos_embedding
    from megatron.core.transformer.moe import moe_utils

    utils._te_version = packaging.version.Version(version)
    # The module was renamed in 0.10.
    rope = sys.modules.get("megatron.core.models.common.embeddings.rope_utils", rotary_pos_embedding)
    rope.fused_apply_rotary_pos_emb = object()
    for work in (
        "permute",
        "permute_with_probs",
        "sort_chunks_by_index",
        "sort_chunks_by_index_with_probs",
        "unpermute",
    ):
        setattr(moe_utils, f"fused_{work}", object())
    stand_in_for("transformer_engine")
    importlib.import_module("transformer_engine.pytorch.optimizers").FusedAdam = FusedAdam  # type: ignore[attr-defined]


def plain(config: Any) -> dict[str, Any]:
    """The fields of a configuration, with types and functions by their names, as JSON can hold them."""
    return {name: _plain(value) for name, value in vars(config).items()}


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return getattr(value, "__name__", str(value).removeprefix("torch."))
