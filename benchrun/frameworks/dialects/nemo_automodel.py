"""NeMo AutoModel: one line per step, a rate and no time.

    2026-08-10 15:55:23 | INFO | root | step 10 | epoch 0 | loss 0.8534 | grad_norm 1.5040 | lr 1.00e-05 | mem 29.67 GiB
    | tps 13746.24(1718.28/gpu) | num_label_tokens 29550                                          (on one line)

Steps count from 0. ``tps`` is tokens/s of all GPUs, with padding; in brackets that of one, which gives their number.
Some recipes print that of one alone, and the first releases none: then there is no rate. Source: NVIDIA-NeMo/Automodel
nemo_automodel/recipes/llm/train_ft.py, dllm/train_ft.py, and its guides.
"""

import re
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

from benchrun.parse.dialect import Dialect, Reading, Record, fact_of

_RATE = Reading(pattern=r"\d+\.\d\d")


class NemoAutomodel(Dialect):
    """NeMo AutoModel since 0.1."""

    name = "nemo-automodel"
    step_needles = (b" GiB | tps ",)
    first_number = 0
    one_rank_prints = True
    head = re.compile(
        r"\bstep +(?P<step>\d{1,15}) \| epoch \d{1,9} \| loss (?P<loss>-?\d{1,9}\.\d{4}|nan) \|"
        r"(?: (?:grad_norm (?P<grad_norm>\d{1,15}\.\d{4}|nan|inf)|\w{1,30}:? [^\s|]{1,20}(?: GiB)?) \|){1,9}"
        r" tps (?:(?P<tokens_per_s>\d{1,15}\.\d\d)\()?(?P<tokens_per_s_per_gpu>\d{1,15}\.\d\d)/gpu(?!\w)"
    )
    readings: ClassVar = {"tokens_per_s": _RATE, "tokens_per_s_per_gpu": _RATE}

    def records(self, text: str) -> Iterator[Record]:
        """The steps of a line that have a rate."""
        return (record._replace(needs="tokens_per_s_per_gpu") for record in super().records(text))

    def complete(self, values: dict[str, Any]) -> None:
        """Take the number of GPUs from the two rates."""
        of_all, of_one = values.pop("tokens_per_s", None), values.get("tokens_per_s_per_gpu")
        if of_all is not None and of_one is not None:
            self.facts.num_gpus = fact_of("num_gpus", round(float(np.median(of_all / of_one)))) or self.facts.num_gpus
