"""A cluster of the real Ray on two nodes, formed by the script of nemo-rl: a few lines stand in for its driver."""

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

if importlib.util.find_spec("ray") is None:
    pytest.skip("needs pip install ray", allow_module_level=True)

pytestmark = pytest.mark.thorough
DRIVER = """import os, ray
ray.init(address="auto", log_to_driver=False)

@ray.remote(num_gpus=8)
class Node:
    def name(self):
        return os.environ["SLURMD_NODENAME"]

nodes = [Node.remote() for _ in range(2)]
print("nodes", *sorted(ray.get([node.name.remote() for node in nodes])), flush=True)
for step in (1, 2):
    print("=" * 25, f"Step {step}/2", "=" * 25, "\\n  • Total step time: 2.00s", flush=True)
"""
SITE = """name: ray
scheduler: slurm
gpu: H100
gpus_per_node: 8
exclusive: false
exclude: n3
cpus_per_task: 1
setup: ["export PATH={folder}:$PATH"]
frameworks: {{nemo-rl: {{path: "{folder}"}}}}
"""


def test_every_node_joins_and_nothing_is_left(user: Any, tmp_path: Path) -> None:
    folder = user.script(f'shift; exec {sys.executable} "$@"').parent
    (folder / "program.sh").rename(folder / "uv")
    (folder / "ray").symlink_to(Path(sys.executable).parent / "ray")
    (folder / "examples").mkdir()
    (folder / "examples" / "run_grpo.py").write_text(DRIVER)
    site = tmp_path / "site.yaml"
    site.write_text(SITE.format(folder=folder))
    point = ["llama3.1-8b-grpo", "--gpu=H100", "--precision=bf16", "--num-gpus=16", f"--cluster={site}"]
    run = user.call("launch", *point, "--set=steps=2").stdout.strip()
    assert user.wait(run, 180)["state"] == "completed", (user.runs / run / "stderr.log").read_text()
    assert "nodes n1 n2\n" in user.log(run)
    assert not user.left(run)
