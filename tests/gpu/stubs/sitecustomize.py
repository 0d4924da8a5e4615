"""On PYTHONPATH: an import of a package in names.txt, installed or not, gives objects that do nothing.

The frameworks import these packages at their start; a benchmark's training never calls them. A call of one returns
another such object, so that decorators and base classes of that origin load.
"""

import importlib.abc
import importlib.machinery
import sys
import types
from collections.abc import Sequence
from pathlib import Path
from typing import Any

NAMES = frozenset(Path(__file__).with_name("names.txt").read_text().split())


class Nothing:
    """Stands for any object of a package that is not installed."""

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """A decorator returns what it decorates."""
        decorates = len(args) == 1 and not kwargs and callable(args[0]) and not isinstance(args[0], Nothing)
        return args[0] if decorates else Nothing(f"{self.__name__}()")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Nothing(f"{self.__name__}.{name}")

    def __enter__(self) -> "Nothing":
        return self

    def __exit__(self, *raised: Any) -> None:
        """What was raised goes on."""

    def __getitem__(self, key: Any) -> "Nothing":
        return self

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type, ...]:
        return ()

    def __or__(self, other: Any) -> Any:
        return other

    __ror__ = __or__


class Package(types.ModuleType):
    """A module whose every name is a `Nothing`."""

    __path__ = ()
    __version__ = "0"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        # Called in every step, of a package for distillation: None is "not used".
        unused = name == "get_tensor_shapes_adjust_fn_for_distillation"
        value = (lambda *_, **__: None) if unused else Nothing(f"{self.__name__}.{name}")
        setattr(self, name, value)
        return value


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the packages of ``NAMES`` and their modules; where ``parents``, the packages that those are in."""

    def __init__(self, *, parents: bool = False) -> None:
        self.parents = parents

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        within = any(f"{fullname}.".startswith(f"{name}.") for name in NAMES)
        around = self.parents and any(name.startswith(f"{fullname}.") for name in NAMES)
        if not (within or around):
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return Package(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        """Nothing is executed."""


sys.meta_path.insert(0, Finder())
sys.meta_path.append(Finder(parents=True))  # last: megatron is there, if megatron.energon is not
