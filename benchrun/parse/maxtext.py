"""MaxText: one line a step.

    completed step: 10, seconds: 13.360, TFLOP/s/device: 305.127, Tokens/s/device: 3679.158, loss: 10.565

JAX dispatches asynchronously: step 0 compiles, the next one or two seem to take no time at all, then one absorbs the
backlog. Steps count from 0. Source: AI-Hypercomputer/maxtext src/maxtext/common/metric_logger.py and its forms of 2024
and 2025.
"""

from __future__ import annotations

import re

from benchrun.parse.dialect import Dialect, count, fields, number, positive
from benchrun.parse.lines import Line
from benchrun.parse.records import Step

_STEP = re.compile(r"completed step: (\d{1,15}),\s*(?=seconds: )")
_LAST = re.compile(r"(loss|lm_loss): (-?\d+\.\d{3}|nan)")
_PARAMETER = re.compile(r"Config param (\w+): (\S+)")
_DEVICES = re.compile(r"Num_devices: (\d{1,9}),")
_PARAMETERS = {
    "steps": "planned_steps",
    "max_target_length": "seq_length",
    "global_batch_size_to_train_on": "global_batch_size",
    "num_decoder_layers": "num_layers",
    "emb_dim": "hidden_size",
    "mlp_dim": "ffn_hidden_size",
    "num_query_heads": "num_attention_heads",
    "num_kv_heads": "num_query_groups",
    "head_dim": "kv_channels",
    "vocab_size": "vocab_size",
}


class MaxText(Dialect):
    """MaxText since 2024."""

    name = "maxtext"
    step_needles = (b"completed step: ",)
    fact_needles = (b"Config param ", b"Num_devices: ")
    first_number = 0
    one_line = True

    def read(self, line: Line) -> None:
        """A step line, or a parameter."""
        heads = list(_STEP.finditer(line.text))
        if not heads:
            self._fact(line.text)
        elif self.whole(line):
            for head, following in zip(heads, (*heads[1:], None), strict=True):
                end = following.start() if following else len(line.text)
                self._row(int(head[1]), line.text[head.end() : end], line.number)

    def _row(self, step: int, body: str, line: int) -> None:
        # Every number but the last is closed by a comma; the last is a loss, with three decimals.
        closed, _, last = body.rpartition(",")
        found = fields(closed, ",")
        time_s = positive(found.get("seconds"))
        if time_s is None:
            return
        if loss := _LAST.fullmatch(last.strip()):
            found.setdefault(loss[1], loss[2])
        self.rows.add(
            Step(
                step,
                time_s,
                line,
                loss=number(found.get("loss", found.get("lm_loss"))),
                tflops_per_gpu=positive(found.get("TFLOP/s/device", found.get("TFLOP/s"))),
                tokens_per_s_per_gpu=positive(found.get("Tokens/s/device")),
            )
        )

    def _fact(self, text: str) -> None:
        if devices := _DEVICES.search(text):
            self.facts.num_gpus = int(devices[1])
        for name, value in _PARAMETER.findall(text):
            if name in _PARAMETERS and value.isdigit():
                setattr(self.facts, _PARAMETERS[name], count(value))
            elif name == "quantization" and "fp8" in value:
                self.facts.precision = "fp8"
            elif name == "dtype" and value == "bfloat16":
                self.facts.precision = self.facts.precision or "bf16"
