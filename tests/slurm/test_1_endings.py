"""Every run ends in the right name, within its deadline, on a real Slurm. All are submitted first, then awaited."""

import json
import shutil
import time
from typing import Any

import pytest

SLEEP = "echo started; exec sleep 600"
TOKEN = "token-that-nobody-may-find"
# n3 is kept free for the tests that need a node to break.
HERE = "cluster.exclude=n3"


@pytest.fixture(scope="module")
def runs(user: Any) -> Any:
    """Run ids by what is to happen to them."""
    return {
        "dense": user.launch("tiny-llama", 4, HERE),
        "experts": user.launch("tiny-mixtral", 2, "cluster.gpus_per_node=1", HERE),
        "gpus": user.program(
            "tiny-llama", 2, 'echo "rank $RANK sees $CUDA_VISIBLE_DEVICES"', "cluster.gres=gpu", HERE
        ),
        "failing": user.program("tiny-llama", 2, '[ "$RANK" = 1 ] && exit 7; exec sleep 600', HERE),
        "crashing": user.program("tiny-llama", 2, '[ "$RANK" = 1 ] && kill -SEGV $$; exec sleep 600', HERE),
        "limit": user.program("tiny-llama", 1, SLEEP, "cluster.time_limit=00:01:00", HERE),
        "cancelled": user.program("tiny-llama", 1, SLEEP, HERE),
        "outside": user.program("tiny-llama", 1, SLEEP, HERE),
        "memory": user.program(
            "tiny-llama", 1, "exec /usr/bin/python3 -c 'x = bytearray(400 << 20); import time; time.sleep(60)'",
            "cluster.mem=100M", HERE,
        ),
        "no image": user.launch(
            "tiny-llama", 1, "cluster.container.runtime=charliecloud", "cluster.container.image=/none/such", HERE
        ),
        "forgotten": user.program("tiny-llama", 1, "exit 0", HERE),
        "too short": user.program("tiny-llama", 1, "exit 0", HERE),
        "token": user.program(
            "tiny-llama", 1, f'[ "$HF_TOKEN" = {TOKEN} ] && echo the rank has it',
            "cluster.secrets=[HF_TOKEN]", HERE, HF_TOKEN=TOKEN,
        ),
        "requeue": user.program(
            "tiny-llama", 1, 'echo "life ${SLURM_RESTART_COUNT:-0}"; [ -n "$SLURM_RESTART_COUNT" ] || exec sleep 600',
            HERE,
        ),
    }  # fmt: skip


def test_two_nodes_train_with_tensor_and_data_parallelism(user: Any, runs: Any) -> None:
    row = user.wait(runs["dense"], 150)
    assert (row["state"], row["last_step"]) == ("completed", 20)
    assert row["nodes"] == "n[1-2]"
    assert {p.stem for p in (user.runs / runs["dense"] / "probe").glob("*.json")} == {"n1", "n2"}
    verdict = json.loads(user.call("compare", runs["dense"], "--json").stdout)
    assert verdict["verdict"] == "pass"
    assert verdict["checks"][0]["metric"] == "final_loss"


def test_two_nodes_train_with_expert_parallelism(user: Any, runs: Any) -> None:
    row = user.wait(runs["experts"], 150)
    assert (row["state"], row["last_step"]) == ("completed", 20)
    assert json.loads(user.call("compare", runs["experts"], "--json").stdout)["verdict"] == "pass"


def test_gpus_are_asked_for_in_the_header_and_given_to_the_ranks(user: Any, runs: Any) -> None:
    user.wait(runs["gpus"], 60)
    assert "#SBATCH --gres=gpu:2\n" in (user.runs / runs["gpus"] / "job.sh").read_text()
    assert {"rank 0 sees 0,1", "rank 1 sees 0,1"} <= set(user.log(runs["gpus"]).splitlines())


def test_a_job_that_nobody_knows_any_more_is_not_running(user: Any, runs: Any) -> None:
    user.wait(runs["forgotten"], 60)
    path = user.runs / "forgotten"  # a job is known by its directory too, and no job has this one
    shutil.copytree(user.runs / runs["forgotten"], path)
    for name in ("done.json", "ending.json"):
        (path / name).unlink(missing_ok=True)
    event = {"time": "2026-01-01T00:00:00Z", "event": "submitted", "job": "987654"}
    (path / "events.jsonl").write_text(json.dumps(event) + "\n")
    row = user.status("forgotten")
    assert (row["state"], row["ended"]) == ("gone", False)


def test_a_failing_rank_ends_the_job_and_is_named(user: Any, runs: Any) -> None:
    row = user.wait(runs["failing"], 60)
    assert row["state"] == "failed"
    assert row["exit_code"] != 0
    assert any("task 1: Exited with exit code 7" in evidence for evidence in row["evidence"])


def test_a_crashing_rank_ends_the_job(user: Any, runs: Any) -> None:
    assert user.wait(runs["crashing"], 60)["state"] == "failed"


def test_cancel_from_another_shell(user: Any, runs: Any) -> None:
    user.wait(runs["cancelled"], 60, "running")
    user.call("cancel", runs["cancelled"])
    assert user.wait(runs["cancelled"], 60)["state"] == "cancelled"


def test_scancel_by_somebody_else(user: Any, runs: Any) -> None:
    job = user.wait(runs["outside"], 60, "running")["job"]
    user.slurm("scancel", job)
    row = user.wait(runs["outside"], 60)
    assert row["state"] == "cancelled"
    assert any("CANCELLED" in evidence for evidence in row["evidence"])


def test_too_little_memory(user: Any, runs: Any) -> None:
    assert user.wait(runs["memory"], 90)["state"] == "out_of_memory_host"


def test_a_missing_image(user: Any, runs: Any) -> None:
    assert user.wait(runs["no image"], 60)["state"] == "image_missing"


def test_exit_code_0_without_the_planned_steps_is_incomplete(user: Any, runs: Any) -> None:
    row = user.wait(runs["too short"], 60)
    assert (row["state"], row["exit_code"]) == ("incomplete", 0)
    result = user.call("compare", runs["too short"], "--json", check=False)
    assert result.returncode == 4
    assert json.loads(result.stdout)["verdict"] == "invalid_run"


def test_a_token_reaches_the_ranks_and_no_file(user: Any, runs: Any) -> None:
    user.wait(runs["token"], 60)
    assert "the rank has it" in user.log(runs["token"])
    found = [p for p in (user.runs / runs["token"]).rglob("*") if p.is_file() and TOKEN.encode() in p.read_bytes()]
    assert not found


def test_a_restarted_job_is_no_measurement(user: Any, runs: Any) -> None:
    job = user.wait(runs["requeue"], 60, "running")["job"]
    user.until(lambda: "life 0" in user.log(runs["requeue"]))
    user.slurm("scontrol", "update", f"jobid={job}", "requeue=1")  # an administrator can, whatever the script says
    user.slurm("scontrol", "requeue", job)
    user.wait(runs["requeue"], 60, "pending")
    time.sleep(2)  # Slurm waits two minutes: a node refuses a job in the second in which it was killed there
    user.slurm("scontrol", "update", f"jobid={job}", "starttime=now")
    row = user.wait(runs["requeue"], 180)
    assert row["state"] == "requeued"
    assert "life 1" in user.log(runs["requeue"])


def test_the_time_limit(user: Any, runs: Any) -> None:
    assert user.wait(runs["limit"], 180)["state"] == "timeout"


def test_a_job_that_nobody_knows_any_more_is_lost_in_the_end(user: Any, runs: Any) -> None:
    row = user.wait("forgotten", 60 + 30)
    assert (row["state"], row["final"]) == ("lost", False)
