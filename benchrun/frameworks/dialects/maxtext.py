"""MaxText: one line per step.

    completed step: 10, seconds: 13.360, TFLOP/s/device: 305.127, Tokens/s/device: 3679.158, loss: 10.565

JAX dispatches asynchronously: step 0 compiles, the next one or two seem to take no time at all, then one absorbs the
backlog. Steps count from 0. Source: AI-Hypercomputer/maxtext src/maxtext/common/metric_logger.py and its forms of 2024
and 2025.
"""

import re
from collections.abc import Iterator

from benchrun.parse.dialect import NOT_FINITE, NUMBER, Dialect, Reading, Record, Value, columns, fields, groups, headed

_STEP = re.compile(r"completed step: (?P<step>\d{1,15}),\s*(?=seconds: )")
_LAST = re.compile(rf"\s*(loss|lm_loss):\s{{1,16}}(-?\d+\.\d{{3}}|{NOT_FINITE}(?:\.0*)?)\s*")
_CLOSED = Reading(pattern=r"-?\d+\.\d{3}")
_NAMES = {
    "seconds": ("step_time_s", NUMBER),
    **dict.fromkeys(("loss", "lm_loss"), ("loss", _CLOSED)),
    **dict.fromkeys(("TFLOP/s/device", "TFLOP/s"), ("tflops_per_gpu", NUMBER)),
    "Tokens/s/device": ("tokens_per_s_per_gpu", NUMBER),
}
_FACTS = {
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
    fact_groups = (re.compile(r"Num_devices: (?P<num_gpus>\d{1,9}),"),)
    fact_pairs = re.compile(r"Config param (\w+): (\S+)")
    fact_names = _FACTS

    def records(self, text: str) -> Iterator[Record]:
        """Every record of a line."""
        for head, end in headed(_STEP, text):
            # Every number but the last is closed by a comma; the last is a loss, with three decimals.
            closed = max(text.rfind(",", head.end(), end), head.end())
            pieces = fields(text, head.end(), closed, ",")
            if last := _LAST.fullmatch(text, closed + 1, end):
                pieces.setdefault(last[1], Value(last[1], last[2], last.start(2)))
            yield Record([*groups(head), *columns(pieces, _NAMES)])

    def read_facts(self, text: str) -> None:
        """Sizes, and the precision."""
        super().read_facts(text)
        for name, value in self.fact_pairs.findall(text):
            if name == "quantization" and "fp8" in value:
                self.facts.precision = "fp8"
            elif name == "dtype" and value == "bfloat16":
                self.facts.precision = self.facts.precision or "bf16"
