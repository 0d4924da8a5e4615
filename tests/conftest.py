"""Options of the test run, and who runs what where two processes share it (pytest -n 2)."""

import os
from typing import Any

import pytest

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
