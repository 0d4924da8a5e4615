"""A job that hangs: its deadline without a step ends every rank on every node; and a silence is not hidden by Slurm."""

import sys
from typing import Any

import pytest
from selection import chosen, some

from benchrun import api
from benchrun.jobs import endings
from benchrun.jobs.launcher import observe
from benchrun.rundir.folder import RunDir

# Rank 1 stands still after its third step, as one that waits in a collective for ever; what is stopped heeds no TERM.
STOPS = f"""
[ "${{RANK:-}}" = 1 ] || exec {sys.executable} "$@"
{sys.executable} "$@" &
until grep -q 'iteration        3/' stdout.log; do sleep 0.1; done
kill -STOP $!
wait
"""
STOPPED = ("training.steps=100000", "cluster.step_deadline_s=50", "cluster.mem=2G")
DEAF = "trap '' TERM; echo started; while :; do sleep 600; done"
STEP = "iteration        3/      20 | consumed samples: 8 | elapsed time per iteration (ms): 5.0 | lm loss: 1.0E+00 |"


@pytest.fixture(scope="module")
def hung(user: Any, request: pytest.FixtureRequest) -> Any:
    """Run ids by what hangs in them; most run on two nodes."""
    two = "cluster.gpus_per_node=1"
    programs = {
        "silent": (1, DEAF, "cluster.time_limit=00:01:00"),
        "stopped": (2, STOPS, two, *STOPPED),
        "deaf": (2, f"echo '{STEP}'; {DEAF}", two, "cluster.step_deadline_s=8"),
    }
    names = ("silent", *chosen(request, "name"))
    return {name: user.program("tiny-llama", *programs[name]) for name in names}


@pytest.mark.parametrize(("name", "step"), some([("deaf", 3), ("stopped", None)], 1))
def test_the_deadline_without_a_step_ends_a_hung_job_on_all_nodes(user: Any, hung: Any, name: Any, step: Any) -> None:
    row = user.wait(hung[name], 200)
    assert row["state"] == "hung", row
    assert row["exit_code"] != 0
    assert row["last_step"] >= 3 if step is None else row["last_step"] == step
    folder = user.runs / hung[name]
    done = RunDir(folder).done()
    assert any(f"no step for the last {done.no_step_s} s" in evidence for evidence in row["evidence"])
    assert (folder / "stderr.log").read_text().count("benchrun: no step for") == 1
    assert not user.left(hung[name])
    result = user.call("compare", hung[name], "--json", check=False)
    assert result.returncode == 4
    assert '"invalid_run"' in result.stdout


def test_slurms_last_words_do_not_hide_the_silence_before_them(
    user: Any, hung: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A minute of Slurm's shortest limit stands for the ten of a real silence."""
    run = RunDir(user.runs / hung["silent"])
    for name in ("SLURM_CONF", "PATH"):
        monkeypatch.setenv(name, user.env[name])
    monkeypatch.setattr(endings, "SILENT_S", 20)
    user.until(lambda: observe([run])[0].over, 180)
    end = api.record_end(observe([run])[0])
    assert end.ending is endings.Ending.HUNG
    assert "DUE TO TIME LIMIT" in (run.path / "stderr.log").read_text()
    assert not user.left(hung["silent"])
