"""Steps whose line has no time: what gives them one, and what a fine-tune of verl states."""

from pathlib import Path

import pytest

from benchrun.frameworks.logs import parse_log
from benchrun.measure.setting import Setting
from benchrun.measure.summary import summarise
from benchrun.show.terminal import summary_view

# eric-haibin-lin/verl-data gsm8k/gemma-2-2b-it-sft-0.411.log @ f07af32
VERL_2024 = "step:{0} - train/loss:0.046 - train/lr(1e-3):0.002\n"
TIMER = (
    "[2022-05-07 10:00:00,123] [INFO] [timer.py:207:stop] 0/{0}, RunningAvgSamplesPerSec=31.9,"
    " CurrSamplesPerSec=32.0, MemAllocated=1.2GB, MaxMemAllocated=3.4GB\n"
)
JSON = '  json = {\n    "train_batch_size": 64, \n    "train_micro_batch_size_per_gpu": 4, \n}\n'


def write(path: Path, line: str, head: str = "") -> Path:
    path.write_text(head + "".join(line.format(step) for step in range(30)))
    return path


@pytest.mark.parametrize(("head", "given"), [(JSON, Setting()), ("", Setting(gbs=64))])
def test_a_batch_turns_samples_per_second_into_a_time(tmp_path: Path, head: str, given: Setting) -> None:
    found = summarise(parse_log(write(tmp_path / "x.log", TIMER, head)), given=given)
    assert (found.num_steps, found.global_batch_size) == (30, 64)
    assert found.step_time_s.median == pytest.approx(2.0)


def test_samples_per_second_without_a_batch_ask_for_it(tmp_path: Path) -> None:
    found = summarise(parse_log(write(tmp_path / "x.log", TIMER)))
    assert (found.step_time_s, found.quantities["samples_per_second"].median) == (None, 32.0)
    assert "add --gbs\n" in str(summary_view(found))


def test_verl_s_fine_tune_of_2024_has_steps_and_no_time(tmp_path: Path) -> None:
    command = "+ torchrun --standalone --nnodes=2 --nproc_per_node=8 -m verl.trainer.fsdp_sft_trainer\n"
    log = parse_log(write(tmp_path / "x.log", VERL_2024, command))
    found = summarise(log)
    assert (found.framework, found.num_steps, found.num_gpus, log.facts.task) == ("verl-sft", 30, 16, "sft")
    assert (found.step_time_s, found.tokens_per_s_per_gpu.median, found.final_loss) == (None, None, 0.046)
    assert "no row of this log has a time or a rate" in str(summary_view(found))


def test_verl_s_tokens_give_a_rate_and_a_batch_does_not(tmp_path: Path) -> None:
    line = "step:{0} - train/loss:0.7 - train/time(s):2.000000 - train/global_tokens:131072 - train/mfu:0.312345\n"
    found = summarise(parse_log(write(tmp_path / "x.log", line)), given=Setting(8192, 64, 8))
    assert found.tokens_per_s_per_gpu.median == pytest.approx(131072 / 2 / 8)
    assert found.post_training is False
