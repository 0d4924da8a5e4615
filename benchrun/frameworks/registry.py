"""Every framework that benchrun can launch, by name: the built-in ones, and those of
installed packages.
"""

from collections.abc import Callable

from benchrun import extensions
from benchrun.errors import UserError, closest

from .base import Framework

FRAMEWORKS: dict[str, Framework] = {}


def register(framework: Framework) -> None:
    """Add ``framework``, or replace the one of its name."""
    FRAMEWORKS[framework.name] = framework


for _kind in extensions.everything("frameworks"):
    register(_kind())


def framework(name: str) -> Framework:
    """The framework called ``name``. UserError with the closest names if there is none."""
    if name in FRAMEWORKS:
        return FRAMEWORKS[name]
    if name in extensions.names("checks"):
        check: Framework = extensions.load("checks", name)()
        return check
    raise UserError(f"no framework is called '{name}'", hint=closest(name, FRAMEWORKS))


def names(can: Callable[[Framework], bool] = lambda framework: True) -> list[str]:
    """The names of the frameworks for which ``can`` holds, sorted."""
    return sorted(name for name, framework in FRAMEWORKS.items() if can(framework))
