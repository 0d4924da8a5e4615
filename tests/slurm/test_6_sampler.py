"""The sampler on a real Slurm: a step beside the training on every node, which ends with the job."""

import os
from typing import Any

from benchrun.measure.samples import read

SMI = """
case "$*" in *--loop=1*) echo "$1" >"telemetry/asked.$(uname -n)" ;; *) exit 0 ;; esac
while :; do
  echo "$(date +%Y/%m/%d\\ %H:%M:%S).000, 0, 1755, 2619, 640.12, 700.00, 61, 99, 71234, 0x0000000000000004"
  sleep 0.2
done
"""
# The last rank fails when the others are gone: one that srun had to end would give 143, and the highest code counts.
TRAIN = """
echo "rank $RANK sees $CUDA_VISIBLE_DEVICES"
sleep 1
[ "$RANK" = 3 ] || { touch "left.$RANK"; exit 0; }
until [ -e left.0 ] && [ -e left.1 ] && [ -e left.2 ]; do sleep 0.1; done
sleep 1
exit 7
"""
POINT = (
    "llama3.1-8b",
    "--gpu=H100",
    "--precision=bf16",
    "--num-gpus=4",
    "--framework=megatron-core",
    "--cluster=dgx-h100",
)
SITE = (
    *("partition=batch", "gpus_per_node=2", "container.runtime=none", "mpi=null", "mem=200M", "exclusive=false"),
    *("cpus_per_task=1", "binding.gpus_per_numa_node=null", "gres=gpu"),
)


def test_every_node_is_sampled_beside_its_ranks_and_the_exit_code_stays(user: Any) -> None:
    smi = user.script(SMI)
    smi.rename(smi.with_name("nvidia-smi"))
    train = user.script(TRAIN)
    sets = (f"--set=cluster.{each}" for each in (*SITE, f"python={train}"))
    path = f"{smi.parent}{os.pathsep}{user.env['PATH']}"
    run = user.call("launch", *POINT, *sets, PATH=path).stdout.strip()
    row = user.wait(run, 90)
    assert (row["state"], row["exit_code"]) == ("failed", 7)
    folder = user.runs / run
    assert (folder / "stdout.log").read_text().count(" sees ") == 4
    traces = {file.stem: read(file.read_text()) for file in (folder / "telemetry").glob("*.csv")}
    assert len(traces) == 2
    assert all(len(found) == 1 and len(found[0]) > 2 for found in traces.values())
    asked = [file.read_text().strip() for file in (folder / "telemetry").glob("asked.*")]
    assert asked == ["--id=0,1"] * 2  # the job's own: Slurm names them to the sampler's step too
    assert "telemetry" not in (folder / "stderr.log").read_text()
    user.until(lambda: not user.slurm("squeue", "--noheader", f"--name={run}"))  # its step does not hold the nodes
