"""The worker as a process: what it prints, how it ends, what it refuses."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from forked import Rank, free_port

from benchrun.frameworks.registry import framework
from benchrun.recipes.resolve import resolve
from benchrun.recipes.select import Request
from benchrun.runspec.spec import RunSpec

pytestmark = pytest.mark.train
pytest.importorskip("torch", reason="training needs pip install '.[train]'")
pytest.importorskip("megatron.core", reason="training needs pip install '.[train]'")

MODULE = "benchrun.worker"


def spec_for(ranks: int, *overrides: str, **layout: Any) -> RunSpec:
    """A RunSpec of four short steps, for any number of ranks."""
    small = ("training.steps=4", "model.num_layers=2", "seq_length=64")
    base = resolve(Request("tiny-llama", "CPU", "fp32", 1, overrides=(*small, *overrides)))
    spread = base.layout.model_copy(update=layout)
    return framework("megatron-core").configured(base.resized(layout=spread, num_gpus=ranks))


def alone(path: Path, **env: str) -> tuple[int, str, str]:
    """A run of one rank: exit code, stdout, stderr."""
    return Rank(MODULE, path, **env).finish()


def start_ranks(path: Path, ranks: int, fault: str = "") -> list[Rank]:
    """All ranks of a run, as srun starts them: only Slurm's variables and where to meet. ``fault``: of the last."""
    meet = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "SLURM_STEP_NUM_TASKS": str(ranks)}
    started = []
    for number in range(ranks):
        places = {"SLURM_PROCID": str(number), "SLURM_LOCALID": str(number)}
        first = fault if number == ranks - 1 else ""
        started.append(Rank(MODULE, path, f"rank{number}", first, **meet, **places))
    return started


def process(path: Path, before: str = "") -> subprocess.CompletedProcess[str]:
    """A rank that is a process of its own, and runs the code ``before`` before anything else."""
    (path.parent / "sitecustomize.py").write_text(before)
    modules = os.pathsep.join(filter(None, (str(path.parent), os.environ.get("PYTHONPATH"))))
    command = [sys.executable, "-u", "-m", MODULE, "--spec", str(path)]
    env = {**os.environ, "PYTHONPATH": modules}
    return subprocess.run(command, env=env, cwd=path.parent, capture_output=True, text=True, check=False)


@pytest.fixture
def write(tmp_path: Path) -> Callable[[RunSpec], Path]:
    """Writes a RunSpec into a file."""

    def written(spec: RunSpec) -> Path:
        path = tmp_path / "spec.json"
        path.write_text(spec.model_dump_json())
        return path

    return written


STEP = re.compile(
    r"^ \[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6}\] iteration {8}1/ {7}4 \| consumed samples: {12}8 \| "
    r"elapsed time per iteration \(ms\): \d+\.\d \| learning rate: \d\.\d{6}E-\d\d \| global batch size: {5}8 \| "
    r"lm loss: \d\.\d{6}E[+-]\d\d \| loss scale: 1\.0 \| grad norm: \d+\.\d{3} \| "
    r"number of skipped iterations: {3}0 \| number of nan iterations: {3}0 \|$",
    re.MULTILINE,
)


@pytest.mark.parametrize(
    ("recompute", "layers"),
    [
        ("{granularity: selective, modules: [core_attn, mlp]}", {"core_attn": 2, "mlp": 2}),
        ("{granularity: full, method: uniform, num_layers: 1}", {"full": 2}),
        ("{granularity: none}", {}),
    ],
)
def test_the_log_states_what_is_recomputed(
    write: Callable[[RunSpec], Path], recompute: str, layers: dict[str, int]
) -> None:
    code, out, err = alone(write(spec_for(1, f"training.recompute={recompute}")))
    assert code == 0, err
    assert json.loads(re.findall(r"benchrun in use: (.*)", out)[0])["recompute"] == layers


def test_first_rank_echoes_the_configuration_and_last_rank_prints_megatrons_step_line(
    write: Callable[[RunSpec], Path],
) -> None:
    first, last = (rank.finish() for rank in start_ranks(write(spec_for(2, pp=2)), 2))
    assert (first[0], last[0]) == (0, 0), first[2] + last[2]
    own = [line for line in first[1].splitlines() if line.startswith("benchrun ")]
    assert sum(line.startswith("benchrun config: {") for line in own) == 4
    assert max(map(len, own)) < 1024  # srun may tear longer lines apart
    assert '"device": "cpu", "backend": "gloo"' in first[1]
    assert "benchrun config" not in last[1]
    assert "iteration" not in first[1]
    assert len(STEP.findall(last[1])) == 1
    assert last[1].count("lm loss") == 4
    assert '"fp8_modules": {}' in last[1]
    assert '"optimizer": "torch.optim.adamw.AdamW"' in last[1]
    assert '"exp_avg": "float32", "exp_avg_sq": "float32"' in last[1]
    assert last[1].count('benchrun done: {"steps": 4, "peak_rss_gib": ') == 1


def test_two_runs_of_one_process_share_a_machine(write: Callable[[RunSpec], Path]) -> None:
    path = write(spec_for(1))
    both = [Rank(MODULE, path, "one"), Rank(MODULE, path, "other")]
    for code, out, err in [rank.finish() for rank in both]:
        assert code == 0, err
        assert "Warning" not in err
        assert out.count("lm loss") == 4


def test_a_loss_that_is_not_a_number_is_counted_and_training_goes_on(write: Callable[[RunSpec], Path]) -> None:
    code, out, err = alone(write(spec_for(1, "training.lr=1e30")))
    assert code == 0, err
    assert out.count("number of nan iterations:   0") + out.count("number of nan iterations:   1") == 4
    final = next(line for line in out.splitlines() if "iteration        4/" in line)
    assert "number of nan iterations:   1" in final
    assert "lm loss" not in final


def test_fp8_without_transformer_engine_is_refused(write: Callable[[RunSpec], Path]) -> None:
    code, out, err = alone(write(spec_for(1).model_copy(update={"precision": "fp8"})))
    assert code == 2
    assert "fp8 needs transformer-engine on a GPU" in err
    assert "Traceback" not in err
    assert "lm loss" not in out


def test_a_wrong_number_of_ranks_is_refused(write: Callable[[RunSpec], Path]) -> None:
    code, _, err = alone(write(spec_for(1)), RANK="0", WORLD_SIZE="2")
    assert code == 2
    assert "2 ranks were started, the run needs 1" in err


def test_a_spec_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "spec.json"
    assert process(path).returncode == 2
    path.write_text("{}")
    ended = process(path)
    assert ended.returncode == 2
    assert f"error: {path}: not a RunSpec: " in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_missing_megatron_core_gets_a_hint(write: Callable[[RunSpec], Path]) -> None:
    ended = process(write(spec_for(1)), "import sys\nsys.modules['megatron'] = None\n")
    assert ended.returncode == 2
    assert "error: framework megatron-core: No module named 'megatron" in ended.stderr
    assert "pip install '.[train]'" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert ended.stdout == ""


def test_an_exit_by_a_library_is_a_failure(write: Callable[[RunSpec], Path]) -> None:
    leave = "import sys\nimport benchrun.worker.entry as r\nr.prepare_process = lambda _: sys.exit(0)\n"
    ended = process(write(spec_for(1)), leave)
    assert ended.returncode == 1
    assert "rank 0 failed" in ended.stderr


def test_when_a_rank_dies_the_others_end_by_themselves(write: Callable[[RunSpec], Path]) -> None:
    """Rank 1 finds no data; rank 0 waits for it in a collective, and no launcher ends it."""
    path = write(spec_for(2, tp=2))
    no_data = "import benchrun.worker.train as loop; loop.loader = None"
    waiting, dead = (rank.finish() for rank in start_ranks(path, 2, no_data))
    assert dead[0] == 1
    assert "rank 1 failed" in dead[2]
    assert waiting[0] == 1
    assert "rank 0 failed" in waiting[2]
