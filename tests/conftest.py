"""Options of the test run, and who runs what where two processes share it (pytest -n 2)."""

from __future__ import annotations

import pytest


def pytest_addoption(parser):
    parser.addoption("--update-golden", action="store_true", help="write tests/golden anew")


@pytest.hookimpl(optionalhook=True)  # there is pytest-xdist
def pytest_xdist_make_scheduler(config, log):
    """A file goes whole to one process, as its tests share fixtures; so do those of the one Slurm cluster."""
    from xdist.scheduler import LoadScopeScheduling

    class Files(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            file = nodeid.partition("::")[0]
            return "tests/slurm" if file.startswith("tests/slurm/") else file

    config.option.loadscopereorder = False  # the Slurm tests, which wait, beside the training, which does not
    return Files(config, log)
