"""Options of the test run, and who runs what where two processes share it (pytest -n 2)."""

import os
from typing import Any

import pytest
from hypothesis import settings

# CI runs one list of examples, so that it does not fail by chance. Other runs try new ones each time.
settings.register_profile("CI", deadline=None, derandomize=True)
settings.register_profile("any machine", parent=settings.get_profile("default"), deadline=None)
settings.load_profile("CI" if "CI" in os.environ else "any machine")
os.environ.pop("BENCHRUN_RESULTS", None)  # of the user's shell: the tests have folders of their own


def pytest_addoption(parser: Any) -> None:
    parser.addoption("--update-golden", action="store_true", help="write tests/golden anew")
    parser.addoption("--update-transcripts", action="store_true", help="write the outputs in docs/tutorials anew")


@pytest.hookimpl(optionalhook=True)  # there is pytest-xdist
def pytest_xdist_make_scheduler(config: Any, log: Any) -> Any:
    """A file goes whole to one process, as its tests share fixtures. Each process has a Slurm cluster of its own."""
    from xdist.scheduler import LoadFileScheduling

    config.option.loadscopereorder = False  # in the order of the folders
    return LoadFileScheduling(config, log)


def pytest_collection_modifyitems(items: Any) -> None:
    """Where processes share the tests, those of Slurm, which mostly wait, stand among those that compute.

    The long files of tests/worker come first, so that no process is left alone with one.
    """
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return
    files = list(dict.fromkeys(item.path for item in items))
    waiting = [file for file in files if file.parent.name == "slurm"]
    computing = [file for file in reversed(files) if file.parent.name != "slurm"]
    place = {file: number / len(group) for group in (waiting, computing) for number, file in enumerate(group)}
    items.sort(key=lambda item: (place[item.path], str(item.path)))
