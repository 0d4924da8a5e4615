"""Facts that programs on the Hugging Face Trainer state before their first step: batch,
ranks, precision, trained part.

The Trainer's own lines, and those of Unsloth (its banner), LLaMA-Factory, Axolotl,
ms-swift, PEFT and accelerate.
"""

import re

from benchrun.frameworks.deepspeed.dialect import LAUNCHED
from benchrun.logs.numerals import fact_of, number
from benchrun.logs.records import FROZEN, Facts

NAMES = {
    "Num Epochs": "num_epochs",
    "Total optimization steps": "planned_steps",
    "Total steps": "planned_steps",
    "Total train batch size": "gbs",
    "Total batch size": "gbs",
    "Instantaneous batch size per device": "mbs",
    "Batch size per device": "mbs",
    "Gradient Accumulation steps": "accumulation_steps",
    "Gradient accumulation steps": "accumulation_steps",
    "Number of trainable parameters": "trainable_params",
}
"""Name of a setting -> field of Facts."""
PAIRS = re.compile(rf"\b({'|'.join(NAMES)})(?: \(.*?\))? = ([\d,]{{1,19}})(?![\d.])")
RANKS = (
    re.compile(r"\bworld[_ ]size(?:: | \.{4,} )(?P<num_gpus>\d{1,7})\b"),
    re.compile(r"finetuning \| Num GPUs(?: used)? = (?P<num_gpus>\d{1,7})\b"),
    re.compile(r"^Num processes: (?P<num_gpus>\d{1,7})\s*$"),
    LAUNCHED,
)
"""Lines that state the number of processes, each with a GPU of its own."""
DEVICE = re.compile(r"\|\s+(?P<device>[A-Z][^|.=]{2,60})\. Num GPUs = ")
_PRECISIONS = (
    re.compile(r"(?<![-\w.`])(?P<switch>bf16|fp16)=(?P<value>True),"),
    re.compile(r"\bcompute (?P<switch>dtype): torch\.(?P<value>\w{1,20})"),
    re.compile(r"\bCreating (?P<switch>FP8) configuration with backend: (?P<value>\w{1,20})"),
)
"""Words of TrainingArguments, on one line or each on its own, and of LLaMA-Factory."""
# GPT-2's context, to which its examples cut every sample; newer models are trained far
# below their limit.
LENGTHS = (
    re.compile(r"(?<!_)\bmax_length: (?P<seq_length>\d{1,9})\b"),
    re.compile(r"\"n_positions\": (?P<seq_length>\d{1,9})\b"),
)
NEEDLES = (
    *(name.encode() for name in NAMES),
    b"Num examples = ",
    b"world_size: ",
    b"world size: ",
    b"  world_size ....",
    b"Num processes: ",
    b"Num GPUs",
    b"dist_world_size=",
    b" max_length: ",
    b'"n_positions": ',
    b"16=True,",
    b"rainable",
    b"inetuning_type",
    b"ine-tuning method",
    b"compute dtype: torch.",
    b"Creating FP8 configuration with",
    b"adapter",
    b"tuner_type",
    b"train_type",
    b"sft_type",
)
"""Bytes of the lines with any of this."""
_EXAMPLES = re.compile(r"\bNum examples = ([\d,]{1,19})")
_SHARES = (
    re.compile(
        r"trainable params: (?P<own>[\d,.]+) \|\| all params: (?P<all>[\d,.]+) \|\| trainable%: [\d.]+"
    ),
    re.compile(r"Trainable parameters = (?P<own>[\d,]+)\s*(?:/|of)\s*(?P<all>[\d,]+) \("),
    re.compile(r": (?P<all>[\d.]+)M Params \((?P<own>[\d.]+)M Trainable \["),
)
_METHOD = re.compile(
    r"(?:Fine-tuning method: |\b(?:finetuning_type|adapter|(?:tuner|train|sft)_type)['\"]?\s?[:=]\s?['\"]?)"
    r"(?P<method>\w+)"
)
"""Names that LLaMA-Factory, Axolotl and ms-swift give to what is trained."""
_ADAPTERS = frozenset({"lora", "qlora", "dora", "rslora", "oft", "adalora", "longlora", "lora_ga"})
_FROZEN = frozenset({"freeze", "lisa"})
NEARLY_ALL = 0.9
"""Share of its parameters above which a model is trained as a whole: an encoder of
images may be frozen.
"""
LAST_DIGIT, MOST_UNSURE = 0.001, 0.25
"""Rounding of the summary's rates, per s; and samples by which a batch may be wrong and
still be one whole number.
"""
DATA_PARALLEL = "total batch / (micro-batch x accumulation): data-parallel ranks, which tp, pp, cp or sp multiply"


def take_examples(facts: Facts, text: str, before: int | None) -> int | None:
    """The number of examples on this line, or ``before``; a fact of the run if the line
    states the epochs.
    """
    if stated := _EXAMPLES.search(text):
        before = fact_of("num_examples", int(stated[1].replace(",", "") or 0))
    if "Num Epochs = " in text:
        facts.num_examples = before
    return before


def take_trained_part(facts: Facts, text: str) -> None:
    """Note what part of the model is trained, if the line says it: adapters, or some
    layers.
    """
    methods = [named["method"].lower() for named in _METHOD.finditer(text)]
    if _ADAPTERS.intersection(methods):
        facts.task = "lora"
    for frozen in _FROZEN.intersection(methods):
        facts.add_options({FROZEN: frozen})
    for stated in filter(None, (share.search(text) for share in _SHARES)):
        own = number(stated["own"].replace(",", "")) or 0.0
        whole = number(stated["all"].replace(",", "")) or 0.0
        if 0 < own < NEARLY_ALL * whole and FROZEN not in (facts.options or {}):
            facts.task = "lora"


def take_precision(facts: Facts, text: str) -> None:
    """Take the precision of products, if the line says it."""
    for stated in filter(None, (precision.search(text) for precision in _PRECISIONS)):
        facts.switch(stated["switch"].lower(), stated["value"])


def take_length(facts: Facts, text: str) -> None:
    """A limit of the samples' length, which is stated in passing, and of more than one
    thing.
    """
    for stated in filter(None, (length.search(text) for length in LENGTHS)):
        facts.variable_length = True
        if length := fact_of("seq_length", int(stated["seq_length"])):
            facts.derive(
                "seq_length", length, "the limit of a sample's length, which most may not reach"
            )


def derive(facts: Facts, *, counts_prompts: bool = False) -> None:
    """Guess the number of GPUs, and the batch if the examples refute the one that is
    printed.

    ``counts_prompts``: the examples are prompts with several samples each, which refute
    nothing.
    """
    per_rank = (facts.mbs or 0) * (facts.accumulation_steps or 0)
    if not facts.gbs or not per_rank or facts.gbs % per_rank:
        return
    ranks = facts.gbs // per_rank
    if counts_prompts or not _refuted(facts):
        facts.derive("num_gpus", ranks, DATA_PARALLEL)
        return
    share = _sharing_ranks(facts, ranks)
    given = f"{facts.num_examples:,} examples x {facts.num_epochs:,} epochs / {facts.planned_steps:,} steps"
    reason = f"{given} refute the printed total batch of {facts.gbs:,}: it counts ranks that share their samples"
    facts.derive("gbs", facts.gbs // share if share else None, reason, refuted=True)
    facts.derive(
        "num_gpus",
        ranks,
        "total batch / (micro-batch x accumulation): all ranks, with those of tp or sp",
    )


def derive_batch(facts: Facts, samples_per_s: float, step_s: float) -> None:
    """Guess the batch if no line states it, by the rates of the summary, if one whole
    number fits their digits.
    """
    samples, error = samples_per_s * step_s, LAST_DIGIT / 2 * step_s
    if (
        facts.gbs is None
        and round(samples)
        and abs(samples - round(samples)) <= error < MOST_UNSURE
    ):
        facts.derive("gbs", round(samples), "train_samples_per_second x train_runtime / steps")


def _refuted(facts: Facts) -> bool:
    """Whether the run has more steps than its examples fill with the printed total
    batch.
    """
    stated = facts.num_examples, facts.num_epochs, facts.planned_steps, facts.gbs
    if None in stated:
        return False
    examples, epochs, steps, batch = (value or 0 for value in stated)
    return steps > epochs * -(-examples // batch)


def _sharing_ranks(facts: Facts, ranks: int) -> int | None:
    """The number of ranks with the same samples that makes the steps right; None if
    several or none do.
    """
    fitting = []
    for share in range(2, ranks + 1):
        if ranks % share or not (facts.gbs and facts.num_examples and facts.num_epochs):
            continue
        batch = facts.gbs // share
        steps = set()
        for count in (facts.num_examples // batch, -(-facts.num_examples // batch)):
            steps.add(facts.num_epochs * count)
        if facts.planned_steps in steps:
            fitting.append(share)
    if len(fitting) == 1:
        return fitting[0]
    return None
