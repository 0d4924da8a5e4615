"""Slurm's commands answer late, nothing, or nonsense: no run is given up, none is given a false end, nothing raises."""

import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest

from .conftest import POINT

pytestmark = pytest.mark.thorough

HERE = "cluster.exclude=n3"
SLEEP = "echo started; exec sleep 600"
LOST = "sbatch: error: Batch job submission failed: Zero Bytes were transmitted or received"
# What a program prints in place of what it was asked.
ANSWERS = {
    "empty": "exit 0",
    "failing": "echo 'error: plugin_load_from_file: dlopen failed' >&2; exit 1",
    "not text": r"printf '\xff\xfe\x00|\x80|\xc3(|\n\xff'; exit 0",
    "failing in no text": r"printf '\xff\xfe\x80' >&2; exit 1",
    "with a banner": "echo '*** maintenance | on | Sunday | 8:00 ***'; echo; exec $real \"$@\"",
    "cut": '$real "$@" | head -c 9',
    "without its states": '$real "$@" | sed "s/|.*/||||||/"',
    "in brackets": "head -c 100000 /dev/zero | tr '\\0' '['",
}


SILENT = {"squeue": "exit 0", "sacct": "exit 0"}
SUBMITTED = {
    # What sbatch does; whether the launcher can know the job's id from it.
    "a banner before the id": ('echo "Welcome to cluster 7"; echo; exec $real "$@"', True),
    "a banner in no text": (r'printf "caf\xe9 \xff\n"; exec $real "$@"', True),
    "a cluster after the id": ('$real "$@" | sed "s/$/;benchrun/"', True),
    "a banner after the id": ('$real "$@"; echo "Estimated start: in 2 hours"', True),
    "a lost connection": (f'$real "$@" >/dev/null; echo "{LOST}" >&2; exit 1', False),
    "an error in no text": (r'$real "$@" >/dev/null; printf "\xff\xfe" >&2; exit 1', False),
    "nothing": ('$real "$@" >/dev/null', False),
    "no id": ('$real "$@" >/dev/null; echo submitted', False),
    "too late": ('$real "$@" >/dev/null; sleep 35', False),
}


@pytest.fixture(scope="module", autouse=True)
def waiting(user: Any, runs: Any) -> Iterator[Any]:
    """What takes long, begun before the first test and awaited by those that ask for it."""
    slow = [user.shims(**{name: 'sleep 35; exec $real "$@"'}) for name in ("squeue", "sacct")]
    user.status(runs[0], **user.shims(**SILENT))
    silent_since = time.monotonic()

    def launch(text: Any) -> Any:
        sets = (f"--set=cluster.python={user.script(SLEEP)}", f"--set={HERE}")
        result = user.call("launch", *POINT, *sets, check=False, **user.shims(sbatch=text))
        (run,) = set(re.findall(r"tiny-llama-[0-9a-zA-Z-]+", result.stdout + result.stderr)) or [None]
        return result, run

    with ThreadPoolExecutor(3) as pool:
        launches = {case: pool.submit(launch, text) for case, (text, _) in SUBMITTED.items()}
        answers = [pool.submit(user.rows, *runs, **env) for env in slow]
        yield SimpleNamespace(launches=launches, answers=answers, silent_since=silent_since)
    for launched in launches.values():
        user.call("cancel", launched.result()[1], check=False)


@pytest.fixture(scope="module")
def runs(user: Any) -> Iterator[Any]:
    """One run that goes on, one that has failed, and neither end written down."""
    running = user.program("tiny-llama", 1, SLEEP, HERE)
    failed = user.program("tiny-llama", 1, "exit 5", HERE)
    user.until(lambda: "started" in user.log(running) and (user.runs / failed / "done.json").exists())
    user.until(lambda: not user.slurm("squeue", "--noheader", f"--name={failed}"))
    yield running, failed
    user.call("cancel", running)


@pytest.mark.parametrize("answer", ANSWERS)
@pytest.mark.parametrize("command", ["squeue", "sacct"])
def test_what_is_no_answer_ends_no_run(user: Any, runs: Any, command: Any, answer: Any) -> None:
    running, failed = runs
    now, before = user.rows(running, failed, **user.shims(**{command: ANSWERS[answer]}))
    assert (now["state"], now["ended"]) in {("running", False), ("unknown", False), ("gone", False)}
    assert before["state"] in ({"failed", "unknown", "gone"})
    assert not (user.runs / running / "ending.json").exists()
    # It is as before once the answers are true again, whatever was written down meanwhile.
    (user.runs / failed / "ending.json").unlink(missing_ok=True)


def test_a_queue_that_forgets_what_accounting_calls_running(user: Any, runs: Any) -> None:
    running, _ = runs
    row = user.status(running, **user.shims(squeue="exit 0"))
    assert (row["state"], row["ended"]) == ("running", False)


@pytest.mark.parametrize("case", SUBMITTED)
def test_a_job_that_sbatch_has_submitted_is_found_whatever_it_answers(user: Any, waiting: Any, case: Any) -> None:
    result, run = waiting.launches[case].result()
    assert "Traceback" not in result.stderr
    if SUBMITTED[case][1]:
        assert result.returncode == 0, result.stderr
    else:
        assert result.returncode == 3
    row = user.wait(run, 60, "running")
    assert user.jobs(run) == [row["job"]]


def test_an_sbatch_that_submits_nothing_leaves_no_job(user: Any) -> None:
    for text in ("exit 0", "echo 'no license' >&2; exit 1", r"printf '\xff' >&2; exit 70"):
        before = set(user.runs.iterdir())
        result = user.call("launch", *POINT, check=False, **user.shims(sbatch=text))
        assert result.returncode == 3
        assert "Traceback" not in result.stderr
        (run,) = set(user.runs.iterdir()) - before
        assert user.status(run.name)["state"] in {"launch_failed", "unknown"}
        assert not user.jobs(run.name)


def test_both_silent_for_long_ends_no_run_that_goes_on(user: Any, runs: Any, waiting: Any) -> None:
    running, _ = runs
    time.sleep(max(waiting.silent_since + 62 - time.monotonic(), 0))
    user.status(running, **user.shims(**SILENT))
    assert not (user.runs / running / "ending.json").exists()
    row = user.status(running)
    assert (row["state"], row["ended"]) == ("running", False)


def test_slow_answers(user: Any, runs: Any, waiting: Any) -> None:
    """Beyond the time that a command is given: nothing is known, and nothing has ended."""
    for answer in waiting.answers:
        now, before = answer.result()
        assert (now["ended"], now["state"]) in {(False, "running"), (False, "unknown")}
        assert before["state"] in {"failed", "unknown"}
    assert not (user.runs / runs[0] / "ending.json").exists()


def test_the_true_answers_give_the_true_ends(user: Any, runs: Any) -> None:
    now, before = user.rows(*runs)
    assert (now["state"], now["ended"]) == ("running", False)
    assert (before["state"], before["exit_code"]) == ("failed", 5)


def test_slurmdbd_that_hangs_hides_no_end(user: Any, cluster: Any) -> None:
    failing = user.program("tiny-llama", 1, "exit 6", HERE)
    cluster("freeze", "slurmdbd")
    try:
        row = user.wait(failing, 100)
        assert (row["state"], row["exit_code"]) == ("failed", 6)
    finally:
        cluster("thaw", "slurmdbd")
    assert user.status(failing)["state"] == "failed"
