"""Completion of names and values in a shell. An error completes nothing: the command
itself will show it.
"""

import functools
from collections.abc import Callable, Iterable
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from benchrun import api, paths
from benchrun.errors import BenchrunError

Names = Callable[[click.Context, click.Parameter, str], list[str]]


def completing(names: Callable[[click.Context, click.Parameter], Iterable[object]]) -> Names:
    """``names`` as click wants it: those that begin with the word typed so far."""

    @functools.wraps(names)
    def complete(context: click.Context, parameter: click.Parameter, typed: str) -> list[str]:
        try:
            words = dict.fromkeys(map(str, names(context, parameter)))
        except (BenchrunError, OSError):
            return []
        return [word for word in words if word.lower().startswith(typed.lower())]

    return complete


@completing
def recipe_names(context: click.Context, parameter: click.Parameter) -> Iterable[object]:
    """Recipes; for a verb that takes one also suites and studies."""
    one = parameter.nargs == 1 and isinstance(parameter, click.Argument)
    folders = (paths.SUITES, paths.STUDIES) if one else ()
    suites = []
    for folder in folders:
        suites += paths.shipped(folder)
    return [*paths.shipped(paths.RECIPES), *suites]


def _shipped_or_here(folder: Path) -> list[str]:
    return [*paths.shipped(folder), *sorted(map(str, paths.here("*.yaml")))]


plan_names = completing(lambda *_: _shipped_or_here(paths.PLANS))
"""Shipped acceptance plans, and YAML files here."""
study_names = completing(
    lambda *_: [
        *_shipped_or_here(paths.STUDIES),
        *paths.shipped(paths.SUITES),
        *paths.shipped(paths.RECIPES),
    ]
)
"""Shipped studies, suites and recipes, and YAML files here."""
cluster_names = completing(lambda *_: _shipped_or_here(paths.CLUSTERS))
"""Shipped cluster profiles, and YAML files here."""


@completing
def point_values(context: click.Context, parameter: click.Parameter) -> Iterable[object]:
    """Values of an option among the points of the recipe that the other options leave."""
    given = {}
    for name, value in context.params.items():
        if value is not None:
            given[name] = value
    # An option that waits for its value leaves the recipe among the words that click
    # has not yet assigned.
    recipe = given.get("recipe") or next(iter(context.args), None)
    key = parameter.name or ""
    rows = api.list_points((recipe,) if recipe else ())
    others = {}
    for name in ("gpu", "precision", "framework"):
        if name in given:
            others[name] = str(given[name]).lower()
    fitting = []
    for row in rows:
        if all(str(row[name]).lower() == value for name, value in others.items()):
            fitting.append(row)
    return sorted({row[key] for row in fitting})


run_names = completing(lambda *_: [run.run_id for run in reversed(api.find_runs())])
"""Runs in the runs folder, the newest first."""


def runs_or_files(
    context: click.Context, parameter: click.Parameter, typed: str
) -> list[CompletionItem]:
    """Runs in the runs folder; if none begins so, the files here."""
    runs = list(map(CompletionItem, run_names(context, parameter, typed)))
    return runs or [CompletionItem(typed, type="file")]


gpu_names = completing(lambda *_: [row["gpu"] for row in api.INVENTORIES["gpus"]()])
"""The GPUs of the hardware table."""


dialect_names = completing(lambda *_: api.DIALECTS)
"""Frameworks whose logs are read."""
