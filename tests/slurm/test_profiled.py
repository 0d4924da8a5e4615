"""Profiled runs under Slurm: real traces of ranks on two nodes, and nsys around the profiled ranks alone."""

import gzip
import json
from typing import Any

import pytest

LINE = "iteration %8d/      23 | elapsed time per iteration (ms): %s | lm loss: 2.5E+00 | grad norm: 1.0 |"
PROGRAM = f"""
if [ "$RANK" = 1 ]; then
  for ((step = 1; step <= 23; step++)); do printf ' {LINE}\\n' "$step" "$((step > 20 ? 9000 : 1000))"; done
fi
"""
NSYS = """#!/bin/bash
echo "$@" >"profile/called-$RANK"
while [[ $1 != bash && $1 != */program.sh ]]; do shift; done
exec "$@"
"""


def test_each_profiled_rank_on_each_node_leaves_its_trace(user: Any) -> None:
    pytest.importorskip("megatron.core", reason="training needs pip install '.[train]'")
    # The profiler needs more memory than the test cluster gives a CPU.
    profile = ("profile.tool=kineto", "profile.ranks=[0, 1]", "profile.steps=1")
    run = user.launch("tiny-llama", 2, "cluster.mem=3G", "cluster.gpus_per_node=1", *profile)
    row = user.wait(run, 180)
    assert (row["state"], row["last_step"], row["planned_steps"]) == ("completed", 20, 20), row
    folder = user.runs / run / "profile"
    hosts = set()
    for rank in range(2):
        trace = json.loads(gzip.decompress((folder / f"rank{rank}.json.gz").read_bytes()))
        assert trace["distributedInfo"]["rank"] == rank
        hosts.add(trace["host_name"])
    assert len(hosts) == 2
    verdict = json.loads(user.call("compare", run, "--json").stdout)
    metrics = json.loads((user.runs / run / "metrics.json").read_text())
    assert (verdict["verdict"], metrics["num_steps"], metrics["profiled_after"]) == ("pass", 20, 20)


def test_only_the_profiled_rank_runs_under_nsys_and_its_steps_are_not_measured(user: Any) -> None:
    """Without a GPU: the ranks print what Megatron-LM prints, and a program on the nodes' PATH stands for nsys."""
    program = user.script(PROGRAM)
    nsys = program.parent / "nsys"
    nsys.write_text(NSYS)
    nsys.chmod(0o755)
    point = ["llama2-7b", "--precision", "bf16", "--num-gpus", "2", "--gpu", "H100", "--framework", "megatron-core"]
    sets = [
        *("cluster.gpu=H100", "cluster.gpus_per_node=1", f"cluster.python={program}", "profile.ranks=[1]"),
        *("training.steps=20", f"cluster.env.PATH={program.parent}:/usr/local/bin:/usr/bin:/bin"),
    ]
    words = [f"--set={text}" for text in sets]
    run = user.call("launch", *point, "--cluster", "slurm-cpu", "--profile", "nsys", *words).stdout.strip()
    row = user.wait(run, 120)
    assert (row["state"], row["last_step"]) == ("completed", 20), row
    called = sorted(path.name for path in (user.runs / run / "profile").iterdir())
    assert called == ["called-1"]
    words = (user.runs / run / "profile" / "called-1").read_text().split()
    assert words[0] == "profile" and "--capture-range=cudaProfilerApi" in words
    assert words[words.index("--export=sqlite") + 1] == str(program)
    summary = json.loads(user.call("parse", str(user.runs / run), "--json").stdout)
    assert (summary["num_steps"], summary["profiled_after"], summary["complete"]) == (20, 20, True)
    assert summary["step_time_s"]["median"] == 1.0
    assert user.left(run) == []


def test_a_rank_without_nsys_ends_the_job_before_it_trains(user: Any) -> None:
    program = user.script("echo trained")
    point = ["llama2-7b", "--precision", "bf16", "--num-gpus", "2", "--gpu", "H100", "--framework", "megatron-core"]
    sets = ("cluster.gpu=H100", "cluster.gpus_per_node=1", f"cluster.python={program}")
    words = [f"--set={text}" for text in sets]
    run = user.call("launch", *point, "--cluster", "slurm-cpu", "--profile", "nsys", *words).stdout.strip()
    row = user.wait(run, 120)
    # A rank that starts late is ended by the failure of the first one: 143.
    assert row["state"] == "failed" and row["exit_code"] in (127, 143), row
    assert "finds no nsys on its PATH" in (user.runs / run / "stderr.log").read_text()
