"""MaxText: one line a step.

    completed step: 10, seconds: 13.360, TFLOP/s/device: 305.127, Tokens/s/device: 3679.158, loss: 10.565

JAX dispatches asynchronously: step 0 compiles, the next one or two seem to take no time at all, then one absorbs the
backlog. Steps count from 0. Source: AI-Hypercomputer/maxtext src/maxtext/common/metric_logger.py and its forms of 2024
and 2025.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from benchrun.parse.dialect import COUNT, Dialect, Reading, Record, Value, count, fields, headed
from benchrun.parse.lines import Line

_STEP = re.compile(r"completed step: (\d{1,15}),\s*(?=seconds: )")
_LAST = re.compile(r"\s*(loss|lm_loss): (-?\d+\.\d{3}|nan)\s*")
_CLOSED = Reading(pattern=r"-?\d+\.\d{3}")
_COLUMNS = {
    "step_time_s": ("seconds",),
    "loss": ("loss", "lm_loss"),
    "tflops_per_gpu": ("TFLOP/s/device", "TFLOP/s"),
    "tokens_per_s_per_gpu": ("Tokens/s/device",),
}
_PARAMETER = re.compile(r"Config param (\w+): (\S+)")
_DEVICES = re.compile(r"Num_devices: (\d{1,9}),")
_PARAMETERS = {
    "steps": "planned_steps",
    "max_target_length": "seq_length",
    "global_batch_size_to_train_on": "gbs",
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
    printed_conventions = ("full", "causal")

    def read(self, line: Line) -> None:
        """A step line, or a parameter."""
        if _STEP.search(line.text):
            super().read(line)
        else:
            self._fact(line.text)

    def records(self, text: str) -> Iterator[Record]:
        """Every record of a line."""
        for head, end in headed(_STEP, text):
            # Every number but the last is closed by a comma; the last is a loss, with three decimals.
            closed = max(text.rfind(",", head.end(), end), head.end())
            found = fields(text, head.end(), closed, ",")
            values = [Value("step", head[1], head.start(1), COUNT)]
            for column, names in _COLUMNS.items():
                values += [found[name].value(column) for name in names if name in found][:1]
            last = _LAST.fullmatch(text, closed + 1, end)
            if last and (last[1] == "loss" or "lm_loss" not in found) and "loss" not in found:
                values = [value for value in values if value.column != "loss"]
                values.append(Value("loss", last[2], last.start(2), _CLOSED))
            yield Record(values)

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
