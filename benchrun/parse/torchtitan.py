"""torchtitan: one line a log interval, colours between the fields, a rate and no time.

    [rank0]:[titan] 2026-04-18 21:13:38,990 - root - INFO - step: 10  loss: 11.63459  grad_norm: 10.4704
    memory: 29.11GiB(92.83%)  tps: 71,634  tflops: 48.68  mfu: 15.60%                      (on one line)

``tps`` (``wps`` in 2024) is tokens/s of one device, a mean since the line before. Validation prints the same fields
after ``validate step:``. Source: pytorch/torchtitan torchtitan/components/metrics.py.
"""

from __future__ import annotations

import re
from math import prod

from benchrun.parse.dialect import Dialect, number, positive
from benchrun.parse.lines import Line
from benchrun.parse.records import Step

_STEP = re.compile(r"(?<!validate )\bstep:\s*(\d{1,15})\s+(loss:.{0,400})")
_FIELD = re.compile(r"\b(\w{1,20}):\s{1,4}(\S{1,40})(?=\s|$)")
_THOUSANDS = re.compile(r"\d{1,3}(?:,\d{3})*(?:\.\d+)?")
_START = re.compile(
    r"Training starts at step \d+, with local batch size (\d{1,9}), global batch size (\d{1,9}), "
    r"sequence length (\d{1,9}), total steps (\d{1,15})\b"
)
_MESH = re.compile(r"\b(pp|dp|dp_replicate|dp_shard|cp|tp|ep)=(\d{1,9})\b")
_DEVICE = re.compile(r"(?:CUDA|XPU|HIP) capacity: (.{1,80}?) with ")
_VERSION = re.compile(r"torchtitan version: (\d[\w.+]*)")


class Torchtitan(Dialect):
    """torchtitan since 2024."""

    name = "torchtitan"
    step_needles = (b"tps: ", b"wps: ")
    fact_needles = (b"Training starts at step", b"with parallelism: ", b" capacity: ", b"torchtitan version: ")
    closing = ("%", "N/A")
    one_line = True

    def read(self, line: Line) -> None:
        """A step line, or what it says of the run before the first."""
        match = _STEP.search(line.text)
        if match is None:
            self._fact(line.text)
        elif self.whole(line):
            self._row(int(match[1]), match[2], line.number)

    def _row(self, step: int, body: str, line: int) -> None:
        matches = list(_FIELD.finditer(body))
        found = {match[1]: match[2] for match in matches}
        last = matches[-1][1] if matches else ""
        rate = grouped(found.get("tps", found.get("wps")))
        # Other fields follow the rate: where none does, the line is damaged, and the number may be too.
        if rate is None or last in ("tps", "wps"):
            return
        self.rows.add(
            Step(
                step,
                None,
                line,
                loss=number(found.get("loss")),
                grad_norm=number(found.get("grad_norm")),
                tflops_per_gpu=grouped(found.get("tflops")),
                tokens_per_s_per_gpu=rate,
                mfu=_percent(found.get("mfu", "")),
            ),
            averages=True,
        )

    def _fact(self, text: str) -> None:
        facts = self.facts
        if match := _START.search(text):
            facts.micro_batch_size, facts.global_batch_size = int(match[1]), int(match[2])
            facts.seq_length, facts.planned_steps = int(match[3]), int(match[4])
        elif "with parallelism: " in text:
            sizes = {name: int(size) for name, size in _MESH.findall(text)}
            facts.tp, facts.pp, facts.cp, facts.ep = (sizes.get(name) for name in ("tp", "pp", "cp", "ep"))
            # Experts are laid over the ranks that the others span.
            gpus = prod(size for name, size in sizes.items() if name != "ep")
            facts.num_gpus = gpus if 0 < gpus < 10**7 else None
        elif match := _DEVICE.search(text):
            facts.device = match[1]
        elif match := _VERSION.search(text):
            facts.framework_version = match[1]


def _percent(text: str) -> float | None:
    """``15.60%`` -> 0.156; None for ``N/A``, which is printed under FP8."""
    value = positive(text[:-1]) if text.endswith("%") else None
    return value / 100 if value is not None else None


def grouped(text: str | None) -> float | None:
    """``1,234.56`` -> 1234.56; None unless the groups are whole."""
    if text is None or not _THOUSANDS.fullmatch(text):
        # Small numbers are printed without groups, and so is every number of some forks.
        return positive(text)
    return positive(text.replace(",", ""))
