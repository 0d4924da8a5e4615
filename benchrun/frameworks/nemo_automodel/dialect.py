"""NeMo AutoModel: one line per step, a rate and no time; and the same steps as JSON in
a file of metrics.

    2026-08-10 15:55:23 | INFO | root | step 10 | epoch 0 | loss 0.8534 | grad_norm 1.5040 | lr 1.00e-05 | mem 29.67 GiB
    | tps 13746.24(1718.28/gpu) | num_label_tokens 29550                                          (on one line)
    {"step": 10, "epoch": 0, "timestamp": "...", "loss": 0.85, ..., "tps": 13746.2, "tps_per_gpu": 1718.3, "mfu": 11.0}

``tps`` is tokens/s of all GPUs, without the padding at the end of a batch. The figure
before ``/gpu`` is it divided by the data- and context-parallel ranks: with tensor or
pipeline parallelism that is more than a GPU's. Some recipes print that figure alone,
and the first releases none: then there is no rate. A step's clock begins at the end of
the one before, and so holds its validation. ``mfu`` is in percent of 1979 TFLOPS,
H100's FP8 peak, whatever the GPU. Source: NVIDIA-NeMo/Automodel
nemo_automodel/recipes/llm/train_ft.py, recipes/base_recipe.py, components/loggers,
components/utils/flops_utils.py, and its guides.
"""

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, ClassVar

import numpy as np

from benchrun.logs.dialect import (
    COUNT,
    NUMBER,
    PERCENT,
    STATED_LOSS,
    Dialect,
    Reading,
    Record,
    Value,
)
from benchrun.logs.lines import Line
from benchrun.logs.numerals import NOT_FINITE, fact_of
from benchrun.logs.records import LABEL_TOKENS, TOKENS_PER_S
from benchrun.logs.rows import Rows


def _clock(text: str) -> float | None:
    """Seconds since 1970 of a date of JSON; None for any other text."""
    try:
        return datetime.fromisoformat(text.strip('"')).timestamp()
    except ValueError:
        return None


_RATE = Reading(pattern=r"\d+\.\d\d")
_PAIR = re.compile(
    r'"(\w{1,40})": (-?\d[\d.eE+-]*|NaN|-?Infinity|null|"[\d.:TZ+-]{19,35}")(?=[,}])'
)
_JSON: Mapping[str, tuple[str, Reading]] = {
    "step": ("step", COUNT),
    "loss": ("loss", STATED_LOSS),
    "grad_norm": ("grad_norm", NUMBER),
    "tps": (TOKENS_PER_S, NUMBER),
    "tps_per_gpu": ("tokens_per_s_per_gpu", NUMBER),
    "mfu": ("mfu", PERCENT),
    "num_tokens_per_step": ("tokens", NUMBER),
    "num_label_tokens": (LABEL_TOKENS, NUMBER),
    "timestamp": ("clock_s", Reading(_clock, r'"[\d.:TZ+-]{19,35}"', plain=False)),
}
"""Field of a line of JSON -> column and reading."""
_VALIDATION = '[val] name "'
_WHOLE = 0.9
"""Share of its parameters above which a model is trained as a whole."""


class NemoAutomodel(Dialect):
    """NeMo AutoModel since 0.1."""

    name = "nemo-automodel"
    step_needles = (b" GiB | tps ", b'"tps_per_gpu": ', _VALIDATION.encode())
    fact_needles = (
        b"World size: ",
        b"initializing torch distributed with",
        b"global_batch_size: ",
        b"local_batch_size: ",
        b"p_size: ",
        b"Max train steps: ",
        b"_peft.",
        b"Trainable parameters percentage: ",
    )
    fact_groups = (
        re.compile(r"\bWorld size: (?P<num_gpus>\d{1,7})\s*$"),
        re.compile(r"^> initializing torch distributed with (?P<num_gpus>\d{1,7}) workers"),
        re.compile(r"\bglobal_batch_size: (?P<gbs>\d{1,9})\s*$"),
        re.compile(r"\blocal_batch_size: (?P<mbs>\d{1,9})\s*$"),
        re.compile(r"\btp_size: (?P<tp>\d{1,6})\s*$"),
        re.compile(r"\bpp_size: (?P<pp>\d{1,6})\s*$"),
        re.compile(r"\bcp_size: (?P<cp>\d{1,6})\s*$"),
        re.compile(r"- Max train steps: (?P<planned_steps>\d{1,15})\s*$"),
    )
    first_number = 0
    one_rank_prints = True
    closing = ("}",)
    head = re.compile(
        rf"\bstep +(?P<step>\d{{1,15}}) \| epoch \d{{1,9}} \| loss (?P<loss>-?\d{{1,9}}\.\d{{4}}|{NOT_FINITE}) \|"
        rf"(?: (?:grad_norm (?P<grad_norm>\d{{1,15}}\.\d{{4}}|{NOT_FINITE})|"
        r"\w{1,30}:? [^\s|]{1,20}(?: GiB)?) \|){1,9}"
        r" tps (?:(?P<tokens_per_second>\d{1,15}\.\d\d)\()?(?P<tokens_per_s_per_gpu>\d{1,15}\.\d\d)/gpu(?!\w)"
        rf"(?:\) \| num_label_tokens (?P<{LABEL_TOKENS}>\d{{1,15}})(?!\d))?"
    )
    readings: ClassVar = {TOKENS_PER_S: _RATE, "tokens_per_s_per_gpu": _RATE}

    def read(self, line: Line) -> None:
        """A step, a validation, or what the recipe states."""
        if _VALIDATION in line.text:
            if (last := self.rows.last_step) is not None:
                self.other_work[last + 1] = "a validation"
        else:
            super().read(line)

    def records(self, text: str) -> Iterator[Record]:
        """The steps of a line that have a rate."""
        if '"tps_per_gpu": ' in text:
            pairs = (pair for pair in _PAIR.finditer(text) if pair[1] in _JSON)
            values = []
            for pair in pairs:
                values.append(Value(_JSON[pair[1]][0], pair[2], pair.start(2), _JSON[pair[1]][1]))
            yield Record(values, needs="tokens_per_s_per_gpu")
            return
        yield from (
            record._replace(needs="tokens_per_s_per_gpu") for record in super().records(text)
        )

    def complete(self, values: dict[str, Any]) -> None:
        """Keep the rate of all GPUs, and guess their number from the two rates."""
        of_all, of_ranks = values.get(TOKENS_PER_S), values.get("tokens_per_s_per_gpu")
        if of_all is None or of_ranks is None:
            return
        if (tokens := values.get("tokens")) is not None:
            values["step_time_s"] = tokens / of_all
        ranks = fact_of("num_gpus", round(float(np.median(of_all / of_ranks))))
        if ranks is not None:
            self._guess(ranks)

    def _guess(self, ranks: int) -> None:
        """Guess the number of GPUs from the ranks of data and context parallelism."""
        facts = self.facts
        if facts.tp is None and facts.pp is None:
            reason = "tps / (tps/gpu): data- and context-parallel ranks, which tp and pp multiply"
            facts.derive("num_gpus", ranks, reason)
            return
        ways = (facts.tp or 1) * (facts.pp or 1)
        facts.derive(
            "num_gpus", ranks * ways, f"tps / (tps/gpu) x tp {facts.tp or 1} x pp {facts.pp or 1}"
        )

    def read_facts(self, text: str) -> None:
        """Read what the recipe states, and whether it trains adapters."""
        super().read_facts(text)
        share = re.search(r"Trainable parameters percentage: (\d{1,3}\.\d\d)%", text)
        if "_peft." in text or (share and float(share[1]) < 100 * _WHOLE):
            self.facts.task = "lora"

    def finish(self) -> Rows:
        """The rows so far; the first releases count steps from 1."""
        if len(self.rows) and self.rows[0].step == 1:
            self.first_number = 1
        return self.rows
