"""nanotron: one line per log interval, numbers with a letter.

    12/21 01:39:51 [INFO|DP=0|TP=0|host]: iteration: 211364 / 1500000 | consumed_tokens: 480B | time_per_iteration_ms:
    8.79K | tokens_per_sec_per_gpu: 699 | global_batch_size: 1.6M | lm_loss: 2.04 | model_tflops_per_gpu: 15.4 | ...

Three digits, so 0.5 % at best. ``global_batch_size`` counts tokens. Source:
huggingface/nanotron src/nanotron/trainer.py; until 2024 the time is
``elapsed_time_per_iteration_ms``.
"""

import re
from typing import ClassVar

from benchrun.logs.dialect import NUMBER, THOUSANDTHS, Dialect, Reading
from benchrun.logs.numerals import number
from benchrun.logs.records import BATCH_TOKENS, CONSUMED_TOKENS, SOME_TOKENS_PER_S

_SUFFIX = {"K": 1e3, "M": 1e6, "B": 1e9, "G": 1e9, "T": 1e12}


def abbreviated(text: str) -> float | None:
    """``8.79K`` -> 8790."""
    factor = _SUFFIX.get(text[-1:])
    value = number(text[:-1] if factor else text)
    if value is not None:
        return value * (factor or 1)
    return None


_ABBREVIATED = Reading(abbreviated, r"\d+\.?\d*[KMBGT]?", plain=False)
_NAMES = {
    **dict.fromkeys(
        ("time_per_iteration_ms", "elapsed_time_per_iteration_ms"),
        ("step_time_s", _ABBREVIATED._replace(scale=THOUSANDTHS.scale)),
    ),
    "lm_loss": ("loss", NUMBER),
    "grad_norm": ("grad_norm", NUMBER),
    "model_tflops_per_gpu": ("tflops_per_gpu", _ABBREVIATED),
    "tokens_per_sec_per_gpu": ("tokens_per_s_per_gpu", _ABBREVIATED),
    "tokens_per_sec": (SOME_TOKENS_PER_S, _ABBREVIATED),
    "consumed_tokens": (CONSUMED_TOKENS, _ABBREVIATED),
    "global_batch_size": (BATCH_TOKENS, _ABBREVIATED),
}


class Nanotron(Dialect):
    """nanotron."""

    name = "nanotron"
    step_needles = (b"time_per_iteration_ms: ",)
    head = re.compile(r"\biteration: (?P<step>\d{1,15}) / (?P<planned_steps>\d{1,15}) \| ")
    separator = " | "
    names = _NAMES
    fact_needles = (b"micro_batch_size=", b"sequence_length=", b"expert_parallel_size=")
    fact_pairs = re.compile(r"\b(micro_batch_size|sequence_length|tp|pp)=(\d{1,9})\b")
    fact_names: ClassVar = {
        "micro_batch_size": "mbs",
        "sequence_length": "seq_length",
        "tp": "tp",
        "pp": "pp",
    }
