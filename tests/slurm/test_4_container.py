"""The worker trains inside real containers, through the suite's own scripts."""

import json
import sysconfig
from pathlib import Path
from typing import Any

import pytest
from selection import some

from .runtimes import RUNTIMES, settings, start


@pytest.mark.parametrize("runtime", some(RUNTIMES, 1))
def test_two_nodes_train_inside(user: Any, runtime: Any) -> None:
    start(runtime)
    run = user.launch(
        "tiny-llama",
        2,
        "cluster.gpus_per_node=1",
        "cluster.python=/opt/python",  # only the image has it
        "cluster.env.PYTHONPATH=/opt/site",
        *settings(runtime, Path(sysconfig.get_paths()["purelib"])),
    )
    row = user.wait(run, 180)
    assert (row["state"], row["last_step"]) == ("completed", 20), row
    assert "benchrun done" in user.log(run)
    assert json.loads(user.call("compare", run, "--json").stdout)["verdict"] == "pass"
