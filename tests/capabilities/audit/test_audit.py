"""An audit of written logs: jobs and accounting matched, kinds kept apart, nodes named, losses as planted."""

import json
import re
import shutil
import xml.etree.ElementTree as ElementTree
from datetime import datetime, timezone
from pathlib import Path

import pytest
from calling import call
from fleet import Fleet, Kind

LOGS = Path(__file__).parents[2] / "logs"
HEAD = "JobID|JobName|State|ExitCode|Start|End|NodeList|AllocTRES\n"


def audit(*words: object) -> tuple[int, dict]:
    result = call("audit", *words, "--json")
    return result.returncode, json.loads(result.stdout)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    folder = tmp_path_factory.mktemp("fleet")
    planted = {3: (0, 1.04), 17: (3, 1.10)}
    return Fleet(folder, nodes=24, days=8, slow=planted, slow_day=(5, 1.05), failing=0.05).write(1)


@pytest.fixture(scope="module")
def found(fleet: Fleet) -> dict:
    code, document = audit(fleet.folder, "--sacct", fleet.folder / "sacct.txt", "--price", 2)
    assert code == 1
    return document


def test_slow_nodes_are_accused_and_no_others(found: dict, fleet: Fleet) -> None:
    accused = {node["node"]: node for node in found["nodes"] if node["accused"]}
    assert set(accused) == {"n003", "n017"} and len(found["nodes"]) == 24
    since = datetime.fromisoformat(f"{accused['n017']['since']}+00:00")
    assert abs((since - fleet.began[17]).total_seconds()) < 5
    assert accused["n003"]["slower_by"]["low"] < 0.04 < accused["n003"]["slower_by"]["high"]


def test_a_node_in_most_jobs_of_a_small_cluster_is_accused(tmp_path: Path) -> None:
    kinds = Kind(1, 2.0), Kind(2, 3.0), Kind(4, 5.0, 48)
    for name, slow in (("slow", {2: (0, 1.06)}), ("sound", {})):
        folder = tmp_path / name
        folder.mkdir()
        Fleet(folder, nodes=12, days=3, jobs_a_day=20, kinds=kinds, slow=slow, noise=0.012).write(3)
        text = call("audit", folder, "--sacct", folder / "sacct.txt").stdout
        assert text.startswith("SLOW NODES n002:" if slow else "no node is slower than chance explains:")
        assert "as others" in text and ("  slow  " in text) == bool(slow)


@pytest.mark.parametrize(("slow_jobs", "doubt"), [(1, "1 job is slower"), (2, "2 jobs are slower")])
def test_slow_jobs_that_accuse_nobody_are_listed(slow_jobs: int, doubt: str, tmp_path: Path) -> None:
    Fleet(tmp_path, nodes=24, days=2, jobs_a_day=30, kinds=(Kind(4, 2.0),), noise=0.003).write(4)
    rows = (tmp_path / "sacct.txt").read_text().splitlines()
    own = [row.split("|")[0] for row in rows if "n007" in row and "batch" not in row]
    for job in own[-slow_jobs:]:
        log = tmp_path / f"slurm-{job}.out"
        log.write_text(re.sub(r"(?<=\(ms\): )[\d.]+", lambda found: f"{1.08 * float(found[0]):.1f}", log.read_text()))
    words = ("audit", tmp_path, "--sacct", tmp_path / "sacct.txt")
    text, document = call(*words).stdout, json.loads(call(*words, "--json").stdout)
    assert doubt in text.partition("\n")[0] and "Slower, no cause found" in text
    slower = {job["job_id"]: job["slower_by"] for job in document["jobs"] if job["slower_by"]}
    assert slower == {job: pytest.approx(0.08, abs=0.02) for job in own[-slow_jobs:]}


def test_work_keeps_the_numbers_that_are_no_ids(tmp_path: Path) -> None:
    lines = [RATE.format(2 * step, step, 8000) for step in range(1, 21)]
    (tmp_path / "sft-1024gpu-seq4096-2026-412345.out").write_text("".join(lines))
    _, document = audit(tmp_path)
    (job,) = document["jobs"]
    assert job["model"] == "sft-1024gpu-seq4096" and document["total"]["compared"] == 0
    assert job["expected_s"] is None and "states" in job["evidence"]
    assert call("audit", tmp_path).stdout.startswith("nothing to compare")


def test_each_loss_is_the_planted_one(found: dict, fleet: Fleet) -> None:
    lost = found["total"]["lost_gpu_hours"]
    assert lost["fault"]["median"] == pytest.approx(fleet.fault, rel=0.1)
    assert lost["day"]["median"] == pytest.approx(fleet.day, rel=0.1)
    assert lost["failure"] == pytest.approx(fleet.failure, rel=0.02)
    assert lost["choice"] == 0.0
    assert found["total"]["lost_money"]["failure"] == pytest.approx(2 * lost["failure"])
    assert list(found["slow_days"]) == ["2026-03-06"]


def test_a_job_is_compared_with_its_own_kind(found: dict) -> None:
    for job in found["jobs"]:
        if job["state"] == "FAILED":
            assert job["cause"] == "failure" and job["lost_gpu_hours"]["fault"] == 0.0
        elif job["cause"] is None:
            assert job["step_time_s"] == pytest.approx(job["expected_s"]["median"], rel=0.05)
        elif job["cause"] == "slow_node":
            assert {"n003", "n017"} & set(job["nodes"])


def test_a_page_and_junit_name_the_nodes(fleet: Fleet, tmp_path: Path) -> None:
    words = ("audit", fleet.folder, "--sacct", fleet.folder / "sacct.txt")
    assert call(*words, "--output", tmp_path / "audit.html").returncode == 1
    assert "n017" in (tmp_path / "audit.html").read_text()
    suite = ElementTree.fromstring(call(*words, "--format", "junit").stdout)
    failures = {case.get("name") for case in suite if case.find("failure") is not None}
    assert failures == {"n003", "n017"}
    assert call(*words, "--output", tmp_path / "audit.html").returncode == 2
    assert call(*words, "--json", "--format", "html").returncode == 2


def test_no_job_is_slow_beside_one_of_another_precision(tmp_path: Path) -> None:
    kinds = (Kind(1, 2.0), Kind(1, 3.5, precision="fp16"))
    Fleet(tmp_path, nodes=4, days=3, jobs_a_day=10, kinds=kinds).write(2)
    code, document = audit(tmp_path, "--sacct", tmp_path / "sacct.txt")
    assert code == 0 and {job["cause"] for job in document["jobs"]} == {None}
    assert {job["precision"] for job in document["jobs"]} == {"bf16", "fp16"}


def test_real_logs_are_not_blended_and_each_other_file_has_a_reason(tmp_path: Path) -> None:
    for file in sorted(LOGS.glob("*.log.xz")):
        shutil.copy(file, tmp_path)
    (tmp_path / "again").mkdir()
    shutil.copy(LOGS / "07-megatron-core-2026-15it-seq8192.log.xz", tmp_path / "again/copy.log.xz")
    (tmp_path / "notes.md").write_text("no log")
    (tmp_path / "empty.log").write_text("nothing\n")
    code, document = audit(tmp_path)
    assert code == 0
    read = [job["log"] for job in document["jobs"]]
    assert len(read) == len(set(read)) == len(list(LOGS.glob("*.log.xz")))
    assert {job["cause"] for job in document["jobs"]} <= {None, "failure"}
    why = {Path(each["log"]).name: each["why"] for each in document["not_read"]}
    assert set(why) == {"notes.md", "empty.log", "copy.log.xz"} and "copy" in why["copy.log.xz"]


@pytest.mark.parametrize("save_every", [0, 8])
def test_restarts_repeated_steps_and_checkpoints_cost_what_was_planted(save_every: int, tmp_path: Path) -> None:
    planted = Fleet(tmp_path, nodes=8, days=2, failing=0.2, restarting=0.2, save_every=save_every).write(save_every)
    _, document = audit(tmp_path, "--sacct", tmp_path / "sacct.txt")
    lost = document["total"]["lost_gpu_hours"]
    assert lost["failure"] == lost["failure_range"]["median"] == pytest.approx(planted.failure, rel=0.02)
    assert lost["failure_range"]["low"] <= planted.failure <= lost["failure_range"]["high"]


def test_a_month_of_30_days_has_no_31st(tmp_path: Path) -> None:
    begin = datetime(2026, 4, 30, 12, tzinfo=timezone.utc)
    kinds = (Kind(1, 1000.0), Kind(2, 1500.0))
    planted = Fleet(tmp_path, nodes=8, begin=begin, days=1, kinds=kinds, restarting=0.1, save_every=8).write(5)
    _, document = audit(tmp_path, "--sacct", tmp_path / "sacct.txt")
    assert document["total"]["lost_gpu_hours"]["failure"] == pytest.approx(planted.failure, rel=0.02)


def test_a_checkpoint_that_was_only_begun_widens_the_interval(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, nodes=1, days=1, jobs_a_day=1, kinds=(Kind(1, 100.0),), steps=36, save_every=8).write(3)
    log = tmp_path / "slurm-100000.out"
    text, _, _ = log.read_text().partition("checkpoint from iteration      32")
    log.write_text(text.replace("successfully saved checkpoint from", "saving checkpoint at") + "\n")
    (tmp_path / "sacct.txt").write_text(HEAD + fleet.rows[1].replace("COMPLETED", "FAILED"))
    _, document = audit(tmp_path, "--sacct", tmp_path / "sacct.txt")
    lost = document["total"]["lost_gpu_hours"]["failure_range"]
    assert lost["high"] - lost["median"] == pytest.approx(8 * 8 * 100 / 3600, rel=0.05)


RATE = (
    "[titan] 2026-03-01 00:00:{:02d},123 - root - INFO - step: {:2d}  loss: 9.0000  "
    "memory: 30.00GiB(40.00%)  tps: {:,}  tflops: 100.00  mfu: 20.00%\n"
)


def test_a_job_that_goes_on_with_another_and_a_log_beside_it_are_not_blended(tmp_path: Path) -> None:
    lines = [RATE.format(2 * step, step, 8000) for step in range(1, 21)]
    (tmp_path / "first.log").write_text("".join(lines[:10]))
    (tmp_path / "second.log").write_text("".join(lines[10:]))
    (tmp_path / "evaluation.log").write_text("Traceback (most recent call last):\nValueError: no file\n")
    _, document = audit(tmp_path)
    assert [Path(job["log"]).name for job in document["jobs"]] == ["first.log", "second.log"]
    assert [Path(each["log"]).name for each in document["not_read"]] == ["evaluation.log"]


def test_logs_with_rates_alone_are_compared_by_them(tmp_path: Path) -> None:
    for job in range(4):
        lines = [RATE.format(2 * step, step, 8000 + 10 * job) for step in range(1, 21)]
        (tmp_path / f"slurm-{job + 10000}.out").write_text("".join(lines))
    _, document = audit(tmp_path)
    assert [job["job_id"] for job in document["jobs"]] == ["10000", "10001", "10002", "10003"]
    for job in document["jobs"]:
        assert job["expected_s"]["median"] == pytest.approx(2.0, rel=0.01)
        assert "do not state model" in job["evidence"]


def test_jobs_of_one_name_that_differ_much_are_not_compared(tmp_path: Path) -> None:
    for job in range(6):
        lines = [RATE.format(2 * step, step, 8000 + 4000 * (job % 2)) for step in range(1, 21)]
        (tmp_path / f"slurm-{job + 10000}.out").write_text("".join(lines))
    _, document = audit(tmp_path)
    assert {job["expected_s"] for job in document["jobs"]} == {None}
    assert all("not compared" in job["evidence"] for job in document["jobs"])


def test_evidence_of_a_failure_has_the_whole_message(tmp_path: Path) -> None:
    crash = (
        "[rank2]:[E726 04:13:33.549954009 ProcessGroupNCCL.cpp:2151] [PG ID 0 PG GUID 0(default_pg) Rank 2] "
        "Process group watchdog thread terminated with exception: CUDA error: unspecified launch failure\n"
    )
    steps = [RATE.format(2 * step, step, 8000) for step in range(1, 21)]
    (tmp_path / "slurm-10000.out").write_text("".join(steps) + crash)
    _, document = audit(tmp_path)
    assert "CUDA error: unspecified launch failure; " in document["jobs"][0]["evidence"]


def test_nothing_to_read_ends_with_4(tmp_path: Path) -> None:
    for number in range(9):
        (tmp_path / f"{number}.log").write_text("nothing\n")
    code, document = audit(tmp_path)
    assert code == 4 and document["jobs"] == [] and len(document["not_read"]) == 9
    assert call("audit", tmp_path / "missing").returncode == 2


ROWS = """\
7|a|b|COMPLETED|0:0|2026-03-01T00:00:00|2026-03-01T01:00:00|n[001-002,07]x,m1|node=4,gres/gpu:h100=32
7.batch|batch|COMPLETED|0:0|2026-03-01T00:00:00|2026-03-01T01:00:00|n001x|node=1
8_[3-5]|array|PENDING|0:0|Unknown|Unknown|None assigned|
9_4|array|CANCELLED by 1000|0:15|2026-03-01T00:00:00|2026-03-01T02:00:00|n3|gres/gpu=8
9|requeued|NODE_FAIL|1:0|2026-03-01T00:00:00|2026-03-01T01:00:00|n4|gres/gpu=8
9|requeued|FAILED|1:0|2026-03-01T03:00:00|2026-03-01T04:00:00|n5|gres/gpu=8
"""


def test_the_accounting_is_read_without_logs(tmp_path: Path) -> None:
    (tmp_path / "s.txt").write_text(HEAD + ROWS)
    (tmp_path / "logs").mkdir()
    code, document = audit(tmp_path / "logs", "--sacct", tmp_path / "s.txt")
    jobs = {job["job_id"]: job for job in document["jobs"]}
    assert code == 4 and set(jobs) == {"7", "9_4", "9"}
    assert jobs["7"]["nodes"] == ["n001x", "n002x", "n07x", "m1"] and jobs["7"]["gpu"] == "H100"
    assert jobs["7"]["gpu_hours"] == 32 and jobs["9_4"]["state"] == "CANCELLED"
    assert jobs["9"]["gpu_hours"] == jobs["9"]["lost_gpu_hours"]["failure"] == 16
    assert [each["why"] for each in document["not_read"]][:1] == ["job 8_[3-5] never started: PENDING"]


@pytest.mark.parametrize(
    ("text", "where"),
    [
        (HEAD + "7|a|COMPLETED\n", ":2"),
        (HEAD + "7|a|COMPLETED|0:0|today|Unknown|n1|\n", ":2"),
        (HEAD + "7|a|COMPLETED|0:0|2026-03-01T00:00:00|Unknown|n[1-|\n", ":2"),
        (HEAD.replace("NodeList", "Nodes"), ":1"),
    ],
)
def test_a_damaged_accounting_is_refused_with_its_line(text: str, where: str, tmp_path: Path) -> None:
    (tmp_path / "s.txt").write_text(text)
    result = call("audit", tmp_path, "--sacct", tmp_path / "s.txt")
    assert result.returncode == 2 and f"s.txt{where}" in result.stderr


def test_a_failed_job_that_another_goes_on_with_lost_the_rest(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, nodes=1, days=1, jobs_a_day=1, kinds=(Kind(1, 100.0),), steps=36).write(3)
    text = (tmp_path / "slurm-100000.out").read_text()
    lines = text.splitlines(keepends=True)
    steps = [index for index, line in enumerate(lines) if "] iteration" in line]
    (tmp_path / "slurm-100000.out").write_text("".join(lines[: steps[20]]))
    (tmp_path / "slurm-100001.out").write_text("".join([*lines[: steps[0]], *lines[steps[10] :]]))
    first = fleet.rows[1].replace("COMPLETED", "FAILED")
    ends = "2026-03-03T00:00:00|2026-03-03T00:44:20"
    (tmp_path / "sacct.txt").write_text(HEAD + first + f"\n100001|train|COMPLETED|0:0|{ends}|n000|gres/gpu:h100=8\n")
    _, document = audit(tmp_path, "--sacct", tmp_path / "sacct.txt")
    job = {each["job_id"]: each for each in document["jobs"]}["100000"]
    kept = 8 * 10 * 100 / 3600
    assert job["gpu_hours"] - job["lost_gpu_hours"]["failure"] == pytest.approx(kept, rel=0.1)
    assert "job 100001 goes on at step 11" in job["evidence"]
