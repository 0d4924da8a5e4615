"""Aggregate records of InferenceMAX (InferenceX): rates per GPU, latencies in seconds,
``intvty`` = 1 / TPOT.

A record has no counts of requests: whether all were answered stands in the client's own
result file.
"""

import re

from benchrun.logs.records import Facts
from benchrun.logs.serving import Document, Served

_LATENCY = re.compile(r"(mean|median|std|p[\d.]+)_(ttft|tpot|itl|e2el)")
STATED = {
    **{
        "conc": "concurrency",
        "isl": "input_tokens",
        "osl": "output_tokens",
        "hw": "hardware",
        "model": "model",
    },
    **{
        "framework": "backend",
        "spec_decoding": "speculation",
        "dp_attention": "dp_attention",
        "image": "image",
    },
}
NAME = "inferencemax"
SHORTEST = 0.8
"""All its lengths are uniform from this share of the stated ones to the whole; no
record states it.
"""


def document(entry: Document) -> Served | None:
    """One record. The number of GPUs is stated for a split of prefill and decode, else
    it is tp times pp.
    """
    if not {"tput_per_gpu", "hw"} <= entry.keys():
        return None
    stated = {name: entry[key] for key, name in STATED.items() if entry.get(key) is not None}
    served = Served(NAME, settings={**stated, "shortest": SHORTEST})
    facts = served.facts
    for key, value in entry.items():
        if match := _LATENCY.fullmatch(key):
            served.put(f"{match[1]}_{match[2]}_ms", value, 1000)
    served.put("total_tokens_per_s_per_gpu", entry["tput_per_gpu"])
    served.put("output_tokens_per_s_per_gpu", entry.get("output_tput_per_gpu"))
    _place(entry, facts)
    if facts.num_gpus:
        for name in ("total", "output"):
            served.put(
                f"{name}_tokens_per_s",
                served.values.get(f"{name}_tokens_per_s_per_gpu"),
                facts.num_gpus,
            )
    return served


def _place(entry: Document, facts: Facts) -> None:
    """Precision, layout and number of GPUs."""
    for name in ("tp", "pp", "ep"):
        if isinstance(entry.get(name), int):
            setattr(facts, name, entry[name])
    if isinstance(entry.get("precision"), str):
        facts.precision = entry["precision"]
    split = [entry.get(name) for name in ("num_prefill_gpu", "num_decode_gpu")]
    if entry.get("disagg") is True and all(isinstance(each, int) for each in split):
        facts.num_gpus = sum(filter(None, split))
    elif not entry.get("disagg") and facts.tp:
        facts.num_gpus = facts.tp * (facts.pp or 1)
