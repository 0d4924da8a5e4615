"""Sizes that no run has are refused, wherever they are typed in, and not believed where a log prints them."""

from pathlib import Path

import pytest
from test_contract import call

from benchrun.api import Request, resolve_point
from benchrun.errors import UserError
from benchrun.frameworks.logs import parse_log
from benchrun.measure.summary import summarise
from benchrun.vocabulary import MOST_GPUS, Exit

POINT = ("llama3.1-8b", "--gpu", "H100", "--precision", "fp8")
LOG = str(Path(__file__).parent.parent / "logs" / "18-torchtitan-ansi-1gpu-2500it.log.xz")


@pytest.mark.parametrize(
    "arguments",
    [
        ("parse", LOG, "--num-gpus", "99999999999"),
        ("parse", LOG, "--gbs", "99999999999"),
        ("compare", LOG, "--seq-length", "99999999999"),
        ("explain", LOG, "--num-gpus", "99999999999"),
        ("show", *POINT, "--num-gpus", "99999999992"),
        ("predict", *POINT, "--num-gpus", "8,99999999992"),
        ("launch", *POINT, "--num-gpus", "8", "--dry-run", "--repeats", "99999999999"),
        *(
            ("show", *POINT, "--num-gpus", "8", "--set", override)
            for override in (
                *("model.num_layers=9999999999", "model.mtp_layers=9999999999", "layout.stages=Et*9999999999L"),
                *("gbs=99999999996", "training.steps=99999999999", "cluster.gpus_per_node=9999999999"),
            )
        ),
    ],
)
def test_are_wrong_input(arguments: tuple[str, ...]) -> None:
    assert call(*arguments).returncode == Exit.USER


def test_are_wrong_input_of_the_python_interface() -> None:
    with pytest.raises(UserError):
        resolve_point(Request("llama3.1-8b", "H100", "fp8", MOST_GPUS + 8))
    assert resolve_point(Request("llama3.1-8b", "H100", "fp8", MOST_GPUS)).num_gpus == MOST_GPUS


def test_of_a_log_s_model_are_not_believed(tmp_path: Path) -> None:
    sizes = {"num_layers": 9999999999, "hidden_size": 4096, "ffn_hidden_size": 9999999999, "num_attention_heads": 32}
    arguments = "".join(f"  {name} {'.' * 40} {size}\n" for name, size in {**sizes, "seq_length": 4096}.items())
    line = " iteration {0:8d}/      30 | elapsed time per iteration (ms): 1000.0 | lm loss: 2.0E+00 |\n"
    vocabulary = " > padded vocab (size: 50257) with 0 dummy tokens (new size: 50304)\n"
    path = tmp_path / "x.log"
    path.write_text(arguments + vocabulary + "".join(line.format(step) for step in range(1, 31)))
    log = parse_log(path)
    assert (log.facts.num_layers, log.facts.ffn_hidden_size, log.facts.hidden_size) == (None, None, 4096)
    assert (summarise(log).model, summarise(log).num_steps) == (None, 30)
