"""A job that fails before its first step has stated its model, layout and precision."""

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from benchrun import api
from benchrun.errors import NoNumberError
from benchrun.frameworks.logs import parse_log
from benchrun.measure.model import Summary
from benchrun.measure.summary import summarise
from benchrun.show.terminal import summary_view
from tests.generated.draw import draw
from tests.generated.write import lines

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
