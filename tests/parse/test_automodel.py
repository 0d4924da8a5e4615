"""NeMo AutoModel: which ranks a rate is of, what the recipe states, and the file of metrics."""

import json
from pathlib import Path

import pytest

from benchrun.frameworks.logs import parse_log
from benchrun.logs.records import Log
from benchrun.measure.setting import Setting
from benchrun.measure.summary import summarise

STAMP = "2026-01-05 10:00:00 | INFO | root | "


def parse(tmp_path: Path, *stated: str, ranks: int = 4, steps: range = range(20), name: str = "x.log") -> Log:
    lines = [f"{STAMP}{line}" for line in stated]
    for step in steps:
        rate = 16000 + 8 * step
        lines.append(
            f"{STAMP}step {step} | epoch 0 | loss {2.5 - step / 50:.4f} | grad_norm 1.5000 | lr 1.00e-05 |"
            f" mem 30.00 GiB | tps {rate:.2f}({rate / ranks:.2f}/gpu) | num_label_tokens 8000"
        )
        if step == 9:
            lines.append(
                f'{STAMP}[val] name "default" | step 9 | epoch 0 | loss 2.6 | lr 1.00e-05 | num_label_tokens 9'
            )
    path = tmp_path / name
    path.write_text("\n".join(lines) + "\n")
    return parse_log(path)


def test_the_rate_of_all_gpus_is_divided_by_the_given_number(tmp_path: Path) -> None:
    log = parse(tmp_path)
    guessed, given = summarise(log), summarise(log, given=Setting(num_gpus=8))
    assert (guessed.num_gpus, given.num_gpus) == (4, 8)
    assert (list(guessed.derived), given.derived) == (["num_gpus"], {})
    assert guessed.tokens_per_s_per_gpu.median == pytest.approx(2 * given.tokens_per_s_per_gpu.median)
    assert given.tokens_per_s_per_gpu.median == pytest.approx(2012, rel=2e-3)


def test_the_recipe_states_ranks_batch_and_degrees(tmp_path: Path) -> None:
    head = ("  tp_size: 2", "  pp_size: 2", "  global_batch_size: 512", "  local_batch_size: 32")
    log = parse(tmp_path, *head, "- Max train steps: 20", ranks=4)
    assert (log.facts.gbs, log.facts.mbs, log.planned_steps) == (512, 32, 20)
    assert (summarise(log).num_gpus, summarise(log).complete) == (16, True)
    assert parse(tmp_path, "World size: 8").facts.num_gpus == 8


def test_the_first_releases_count_from_one(tmp_path: Path) -> None:
    log = parse(tmp_path, "- Max train steps: 20", steps=range(1, 20))
    assert (log.steps_made, log.complete(20)) == (19, False)


def test_a_step_after_a_validation_holds_it(tmp_path: Path) -> None:
    assert parse(tmp_path).other_work == {10: "a validation"}


@pytest.mark.parametrize(
    ("line", "task"),
    [
        ("    _target_: <class 'nemo_automodel.components._peft.lora.PeftConfig'>", "lora"),
        ("Trainable parameters percentage: 0.26%", "lora"),
        ("Trainable parameters percentage: 100.00%", None),
    ],
)
def test_adapters_are_a_task_of_their_own(tmp_path: Path, line: str, task: str | None) -> None:
    assert parse(tmp_path, line).facts.task == task


def test_the_file_of_metrics_is_automodel_s(tmp_path: Path) -> None:
    path = tmp_path / "training.jsonl"
    with path.open("w") as file:
        for step in range(20):
            metrics = {"loss": 2.5 - step / 50, "grad_norm": 1.5, "lr": 1e-05, "mem": 30.0}
            rates = {"tps": 16000.0, "tps_per_gpu": 2000.0, "mfu": 11.0, "num_tokens_per_step": 20000}
            json.dump({"step": step, "epoch": 0, "timestamp": "2026-01-05", **metrics, **rates}, file)
            file.write("\n")
    found = summarise(parse_log(path))
    assert (found.framework, found.first_step, found.last_step, found.num_gpus) == ("nemo-automodel", 0, 19, 8)
    assert found.step_time_s.median == pytest.approx(1.25)
    assert found.tokens_per_s_per_gpu.median == pytest.approx(2000)
    assert found.mfu_reported.median == pytest.approx(0.11)
