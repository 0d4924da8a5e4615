"""``show`` prints the arithmetic of a layout, and every line of it is true."""

from typing import Any

import pytest

from benchrun.recipes.arithmetic import arithmetic
from benchrun.recipes.resolve import resolve
from benchrun.recipes.select import Request


@pytest.mark.parametrize(
    ("point", "lines"),
    [
        (
            ("llama3.1-70b", "H100", "bf16", 64, "nemo1"),
            [
                "64 GPUs on 8 nodes of 8 = tp 4 * pp 4 * cp 2 * dp 2",
                "128 sequences per step = mbs 1 * dp 2 * 64 micro-batches; 1,048,576 tokens",
                "80 layers = pp 4 * vp 5 * 4 per virtual stage",
                "pipeline idle 0.9 % of a step: 3 of 3 + 64 * 5",
                "a tp rank has 16 of 64 heads and 2 of 8 groups",
                "8192 tokens = cp 2 * tp 4 (sequence parallel) * 1024",
            ],
        ),
        (
            ("llama3.1-405b", "H100", "bf16", 512, "nemo2"),
            ["126 layers + embedding + output layer = pp 8 * vp 8 * 2 per virtual stage"],
        ),
        (
            ("grok1-314b", "H100", "bf16", 512, "nemo1"),
            [
                "512 GPUs = ep 8 * etp 4 * pp 8 * 2 replicas of the experts",
                "8 experts = ep 8 * 1 per rank",
            ],
        ),
        (("llama2-70b", "H100", "bf16", 512, "maxtext"), ["512 data-parallel ranks = fsdp 128 * 4 replicas"]),
        (("llama3.1-8b", "H200", "fp8", 1), ["1 GPU on 1 node of 1 = tp 1 * pp 1 * cp 1 * dp 1"]),
    ],
)
def test_the_lines_are_right(point: tuple[Any, ...], lines: list[str]) -> None:
    found = arithmetic(resolve(Request(*point)))
    assert [line for line in lines if line not in found] == []
