"""Statements of any program on its configuration and its cards count in a log of every dialect."""

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from benchrun.errors import UserError
from benchrun.frameworks.logs import parse_log
from benchrun.logs import Log
from benchrun.measure.setting import Setting, setting_of_log
from benchrun.measure.summary import summarise
from benchrun.usecases.settings import check_options

from .draw import draw
from .forms import ALL
from .write import log

SWITCHES = {
    "fp4: true": "nvfp4",
    "  'fp8': 'hybrid',": "fp8",
    '"mixed_precision": "fp8",': "fp8",
    "model.config.fp8=e4m3": None,
    "fp8=e4m3, fp8_recipe=mxfp8": "fp8",
    "trainer nvfp4: True": "nvfp4",
    "fp8: false": None,
    "fp8: bool": None,
    "fp8_recipe: delayed": None,
}
"""A line of a configuration -> the precision that it states; None for none."""


def written(form: str, line: str, path: Path) -> Log:
    """A sound job in BF16 whose log begins with ``line``."""
    truth = draw(Random(5), form, "plain", "bf16", "sound")
    path.write_bytes(f"{line}\n".encode() + log(replace(truth, gpu="H100", restart=None)))
    return parse_log(path)


def refused(found: Log, **options: str) -> str | None:
    """Place of a statement of the log that differs."""
    try:
        [*check_options(found, options)]
    except UserError as error:
        return error.where
    return None


@pytest.mark.parametrize("form", sorted(ALL))
def test_a_precision_that_the_configuration_states_is_the_logs(form: str, tmp_path: Path) -> None:
    for number, (line, precision) in enumerate(SWITCHES.items()):
        found = written(form, line, tmp_path / f"{number}.log")
        stated = setting_of_log(found, Setting()).precision
        assert stated == precision or (precision is None and stated in (None, "bf16")), line
        place = refused(found, precision="bf16", gpu="B200")
        assert place == (f"{tmp_path}/{number}.log:1" if precision else None), line


@pytest.mark.parametrize("form", sorted(ALL))
@pytest.mark.parametrize("line", ['  "load_in_4bit": true,', "BitsAndBytesConfig(load_in_8bit=True)"])
def test_weights_in_few_bits_are_work_of_their_own(form: str, line: str, tmp_path: Path) -> None:
    options = setting_of_log(written(form, line, tmp_path / "x.log"), Setting()).unknown_options
    assert any(option.lower().startswith("load_in_") for option in options)


@pytest.mark.parametrize("form", sorted(ALL))
def test_a_card_that_nvidia_smi_lists_is_the_logs(form: str, tmp_path: Path) -> None:
    line = "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-2f6e8d1c-aaaa)"
    found = written(form, line, tmp_path / "x.log")
    assert setting_of_log(found, Setting()).gpu == "H100"
    assert refused(found, gpu="H100") is None
    assert refused(found, gpu="B200") is not None


@pytest.mark.parametrize("form", sorted(ALL))
@pytest.mark.parametrize(("other", "kind"), [("NVIDIA A100-SXM4-80GB", "contradictory_layout"), ("NVIDIA T400", None)])
def test_cards_of_two_models_are_no_run_of_one(form: str, other: str, kind: str | None, tmp_path: Path) -> None:
    """A small card beside them draws the screen."""
    cards = ["NVIDIA H100 80GB HBM3", "NVIDIA H100 80GB HBM3", other]
    for number, order in enumerate((cards, cards[::-1])):
        listing = "\n".join(f"GPU {at}: {card} (UUID: GPU-{at}a)" for at, card in enumerate(order))
        fatal = summarise(written(form, listing, tmp_path / f"{number}.log")).fatal
        assert (fatal.kind if fatal else None) == kind


def test_maxtext_on_other_hardware_is_no_run_on_a_gpu(tmp_path: Path) -> None:
    for hardware, gpu in (("tpu", "tpu"), ("cpu", "CPU"), ("gpu", None), ("gpu_multiprocess", None)):
        found = written("maxtext-2025", f"Config param hardware: {hardware}", tmp_path / f"{hardware}.log")
        assert setting_of_log(found, Setting()).gpu == gpu
        assert (refused(found, gpu="H100") is None) == (gpu is None)
