"""Whatever ends a run, in whichever runtime, no process of it is left on any node. The ranks ignore TERM."""

import json
from pathlib import Path
from typing import Any

import pytest
from selection import chosen, some

from .runtimes import RUNTIMES as CONTAINERS
from .runtimes import containers, settings, start

RUNTIMES = ["none", *some(CONTAINERS, 1)]
# No parent, no session and no environment of the job is left to it: only its name says whose it is.
DAEMON = """
( setsid env -i bash -c 'cd /; trap "" TERM; exec -a "$0" sleep 600' "daemon-of-${SLURM_JOB_NAME:-${PWD##*/}}" \\
  </dev/null >/dev/null 2>&1 & )
"""
# With a child in a session of its own, as a data loader may have.
STUBBORN = DAEMON + "trap '' TERM; setsid sleep 600 & echo started; while :; do sleep 1; done"
ENDING = DAEMON + "echo started"
FAILING = '[ "$RANK" = 1 ] && { sleep 5; exit 7; }; ' + STUBBORN
NODES = ("n1", "n2", "n3")


@pytest.fixture(scope="module")
def runtimes(request: pytest.FixtureRequest) -> list[str]:
    """Runtimes of the cases that will run, with their engines up."""
    names = chosen(request, "runtime")
    for runtime in set(names) - {"none"}:
        start(runtime)
    return names


@pytest.fixture(scope="module")
def runs(user: Any, runtimes: list[str]) -> Any:
    """Run ids by runtime and by what ends them: all are submitted at once."""
    return {
        (runtime, ending): launch(user, runtime, program, *more)
        for runtime in runtimes
        for ending, program, *more in (
            ("limit", STUBBORN, "cluster.time_limit=00:01:00"),
            ("cancelled", STUBBORN),
            ("failing", FAILING),
            ("ending", ENDING),
            ("hanging", STUBBORN, "cluster.step_deadline_s=10"),
        )
    }


def launch(user: Any, runtime: str, program: str, *more: str, exclude: str = "n3") -> str:
    """Two ranks on two nodes, in the runtime; the run directory's name is in the environment of every process."""
    path: Path = user.script(program)
    return user.launch(
        "tiny-llama",
        2,
        "cluster.gpus_per_node=1",
        f"cluster.exclude={exclude}",
        *([f"cluster.python={path}"] if runtime == "none" else inside(runtime, path)),
        *more,
    )


def inside(runtime: str, program: Path) -> list[str]:
    """The options for a program that is mounted into the container."""
    return [f"cluster.python=/opt/site/{program.name}", *settings(runtime, program.parent)]


def none_is_left(user: Any, runtime: str, run: str, *, nodes: tuple[str, ...] = NODES) -> None:
    assert not user.left(run)
    for node in nodes:
        assert containers(runtime, node, run) == []


def both_started(user: Any, run: str) -> None:
    user.until(lambda: user.log(run).count("started") == 2, 120)


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_after_cancel(user: Any, runs: Any, runtime: Any) -> None:
    run = runs[runtime, "cancelled"]
    both_started(user, run)
    # The search does find them: on both nodes, except those of a daemon that starts them for every node.
    places = {line.partition(":")[0] for line in user.left(run, grace_s=0)}
    assert {"n1", "n2"} <= places or "host" in places
    user.until(lambda: sum(f"daemon-of-{run}" in line for line in user.left(run, grace_s=0)) == 2)
    user.call("cancel", run)
    assert user.wait(run, 90)["state"] == "cancelled"
    none_is_left(user, runtime, run)
    done = json.loads((user.runs / run / "done.json").read_text())
    assert done["signal"] == "TERM"


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_after_a_failed_rank(user: Any, runs: Any, runtime: Any) -> None:
    run = runs[runtime, "failing"]
    assert user.wait(run, 120)["state"] == "failed"
    assert json.loads((user.runs / run / "done.json").read_text())["exit_code"] != 0
    none_is_left(user, runtime, run)


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_after_the_normal_end(user: Any, runs: Any, runtime: Any) -> None:
    run = runs[runtime, "ending"]
    assert user.wait(run, 120)["exit_code"] == 0
    none_is_left(user, runtime, run)


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_after_the_deadline_without_a_step(user: Any, runs: Any, runtime: Any) -> None:
    run = runs[runtime, "hanging"]
    assert user.wait(run, 120)["state"] == "hung"
    none_is_left(user, runtime, run)


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_after_the_time_limit(user: Any, runs: Any, runtime: Any) -> None:
    run = runs[runtime, "limit"]
    assert user.wait(run, 240)["state"] == "timeout"
    assert json.loads((user.runs / run / "done.json").read_text())["signal"] == "TERM"
    none_is_left(user, runtime, run)


def test_after_a_power_cut_of_one_node(user: Any, cluster: Any, runs: Any, runtimes: list[str]) -> None:
    mine = {runtime: launch(user, runtime, STUBBORN, exclude="n1") for runtime in runtimes}
    for run in mine.values():
        both_started(user, run)
    cluster("fail", "n3")
    try:
        for runtime, run in mine.items():
            assert user.wait(run, 120)["state"] == "node_failure"
            none_is_left(user, runtime, run, nodes=("n1", "n2"))
    finally:
        cluster("restore", "n3")
