"""The number of GPUs that the user types, against what a log of each dialect states."""

import re
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from benchrun.errors import UserError
from benchrun.frameworks.logs import parse_log
from benchrun.measure.setting import Setting, setting_of_log
from benchrun.usecases.settings import check_options

from .draw import draw
from .forms import ALL
from .truth import Truth
from .wrap import wrapped
from .write import log

LAYOUT = {"tp": 2, "pp": 2, "cp": 1, "dp": 4, "ep": 1}
UNUSUAL = {"restart": None, "evaluations": (), "checkpoints": (), "inflated": False, "copies": 1}


def truth_of(form: str) -> Truth:
    """A sound job of 16 GPUs, which prints its setting."""
    drawn = draw(Random(3), form, "plain", scenario="sound")
    return replace(drawn, **LAYOUT, **UNUSUAL, states_setting=True, rows=12)


def refused(file: Path, num_gpus: int) -> bool:
    """Whether ``num_gpus`` is an error that names the log and, of a fact, its line."""
    try:
        [*check_options(parse_log(file), {"num_gpus": num_gpus})]
    except UserError as error:
        assert re.fullmatch(rf"{re.escape(str(file))}(:\d+)?", error.where or "")
        return True
    return False


@pytest.mark.parametrize("form", sorted(ALL))
def test_a_number_that_the_log_refutes_is_an_error(form: str, tmp_path: Path) -> None:
    truth, file = truth_of(form), tmp_path / "x.log"
    file.write_bytes(log(truth))
    known = setting_of_log(parse_log(file), Setting())
    stated = "num_gpus" in ALL[form].states(truth)
    assert not stated or known.num_gpus == 16
    assert not refused(file, 16)
    assert refused(file, 32) == (known.num_gpus == 16)
    assert refused(file, 6) == (known.num_gpus is not None)  # a quotient of batches counts data-parallel ranks


ARGUMENTS = {
    "tensor_model_parallel_size": 2,
    "pipeline_model_parallel_size": 4,
    "context_parallel_size": 1,
    "data_parallel_size": 8,
}
STEP = " iteration {:8}/      20 | elapsed time per iteration (ms): 1012.{} | lm loss: 2.{} |\n"


def megatron(names: set[str]) -> str:
    """Some of Megatron-LM's arguments, and steps."""
    dump = "".join(f"  {name} {'.' * (48 - len(name))} {ARGUMENTS[name]}\n" for name in ARGUMENTS if name in names)
    return dump + "".join(STEP.format(step, step, 999 - step) for step in range(1, 21))


def test_degrees_of_every_kind_give_the_number(tmp_path: Path) -> None:
    file = tmp_path / "x.log"
    file.write_text(megatron({*ARGUMENTS}))
    assert parse_log(file).facts.num_gpus == 64
    assert [refused(file, number) for number in (64, 32, 128)] == [False, True, True]


def test_a_copy_of_the_model_is_not_cut_in_parts(tmp_path: Path) -> None:
    file = tmp_path / "x.log"
    file.write_text(megatron({*ARGUMENTS} - {"data_parallel_size"}))
    assert parse_log(file).facts.num_gpus is None
    assert [refused(file, number) for number in (64, 8, 4, 12)] == [False, False, True, True]
    with pytest.raises(UserError) as error:
        [*check_options(parse_log(file), {"num_gpus": 12})]
    assert error.value.where == f"{file}:1"


FACTS = ("num_gpus", "gbs", "mbs", "seq_length", "precision", "tp", "pp", "num_layers", "planned_steps")


@pytest.mark.parametrize("form", sorted(ALL))
def test_facts_that_come_after_steps_count(form: str, tmp_path: Path) -> None:
    """Another stream, with what the program printed first, reaches the file late."""
    truth, file = truth_of(form), tmp_path / "x.log"
    lines, first = ALL[form].write(truth), len([*ALL[form].head(truth, Random(1))])
    stated = []
    for at in (first, first + (len(lines) - first) // 2, len(lines)):
        late = [*lines[first:at], *lines[:first], *lines[at:]]
        file.write_bytes(wrapped(late, truth.wrapper, truth.gpus, truth.seed))
        facts = parse_log(file).facts
        stated.append([getattr(facts, name) for name in FACTS])
    assert stated[1] == stated[0] == stated[2]
