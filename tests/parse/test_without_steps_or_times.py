"""Steps whose line has no time: what gives them one, and what a fine-tune of verl states."""

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from benchrun import api
from benchrun.errors import NoNumberError
from benchrun.frameworks.logs import parse_log
from benchrun.measure.model import Summary
from benchrun.measure.setting import Setting
from benchrun.measure.summary import summarise
from benchrun.show.terminal import summary_view
from tests.generated.draw import draw
from tests.generated.write import lines

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


# A job that fails before its first step has stated its model, layout and precision.

FORMS = ("megatron-0.14", "megatron-primus", "bridge", "nemo1", "torchtitan-0.1", "maxtext-2025", "hf")
CRASH = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.11 GiB"
)


def whole_and_begun(form: str, folder: Path) -> tuple[Summary, Summary, Path]:
    """A log, and its lines before the first step with a crash behind them."""
    drawn = draw(Random(3), form, "plain", scenario="sound")
    layout = {"tp": 2, "pp": 1, "cp": 1, "dp": 4, "ep": 1}
    truth = replace(drawn, **layout, states_setting=True, inflated=False, restart=None, ending="complete")
    written = lines(truth)
    first = next(at for at, line in enumerate(written) if line.part == "row")
    whole, begun = folder / "whole.log", folder / "begun.log"
    whole.write_text("".join(f"{line.text}\n" for line in written))
    begun.write_text("".join(f"{line.text}\n" for line in written[:first]) + CRASH + "\n")
    return summarise(parse_log(whole)), summarise(parse_log(begun)), begun


@pytest.mark.parametrize("form", FORMS)
def test_what_was_stated_before_a_crash_is_shown(form: str, tmp_path: Path) -> None:
    whole, begun, file = whole_and_begun(form, tmp_path)
    assert (begun.framework, begun.num_steps, begun.fatal and begun.fatal.kind) == ("unknown", 0, "cuda_oom")
    assert begun.global_batch_size == whole.global_batch_size
    assert begun.precision == whole.precision
    assert begun.model == whole.model
    assert begun.layout["tp"] == whole.layout["tp"]
    assert begun.complete is (False if begun.planned_steps else None)
    assert f"global batch {begun.global_batch_size}" in str(summary_view(begun))
    with pytest.raises(NoNumberError, match="cuda_oom"):
        api.explain_log(file)


def test_a_word_or_two_are_no_statement(tmp_path: Path) -> None:
    file = tmp_path / "x.log"
    file.write_text(f"Num processes: 4\n{CRASH}\n")
    assert summarise(parse_log(file)).num_gpus is None
