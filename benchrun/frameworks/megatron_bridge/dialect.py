"""Megatron-Bridge: one step in two lines, from two ranks. Either may be missing from
the file at hand.

    Step Time : 5.39s GPU utilization: 2347.0MODEL_TFLOP/s/GPU     (rank 0; no number; at first without MODEL_)
    [2026-01-27 12:00:00] iteration 5/ 50 | ... | elapsed time per iteration (ms): 5391.2 | ...   (last rank)

Before them rank 0 prints its configuration. Its ``data_parallel_size`` is 1 on any
number of ranks: the number of micro-batches, which follows, gives the ranks.

      num_layers: 4  (Mcore default: 0)
      micro_batch_size: 1

Source: NVIDIA-NeMo/Megatron-Bridge src/megatron/bridge/training/utils/train_utils.py.
"""

import re
from collections.abc import Iterator

from benchrun.frameworks.lightning.facts import MICROBATCHES
from benchrun.frameworks.megatron.dialect import FAMILY, LAYOUT, STEP_TIME, Megatron
from benchrun.frameworks.options import BELOW, is_off, names
from benchrun.logs.dialect import Record
from benchrun.logs.lines import Line
from benchrun.logs.numerals import fact_of

_NAME = r"(?:^|[\s:\]]) {2}([A-Za-z_]\w{0,79}):"
_KEY = f"{_NAME} "
"""Regex of the summary's keys. Two blanks tell them from labels of launchers: ``0:
[default0]:``.
"""
_SETTING = re.compile(_KEY + r"(\S.{0,800}?) +\(Mcore default: ")
"""A line of the configuration's summary, which has what is not Megatron-core's default.
"""
_SIZE = re.compile(_KEY + r"(\d{1,15})\s*$")
_SIZES = {
    "global_batch_size": "gbs",
    "micro_batch_size": "mbs",
    "vocab_size": "vocab_size",
    "sequence_length": "seq_length",  # all samples of the data are that long
}
_NAMES = {"num_moe_experts": "num_experts"}
"""Megatron-core's names of Megatron-LM's arguments."""
_OPTION = re.compile(_NAME + r"(?: (\S.{0,600}?))?\s*$")
_OPTIONS = frozenset(names(FAMILY, "part", "work"))
"""Settings of models that the dimensions of a dense or mixed transformer do not
describe.
"""
_LATENT = "Non-default values (vs Mcore MLATransformerConfig)"
_LATENT_SIZES = {
    "multi_latent_attention": "True",
    "q_lora_rank": "512",
    "kv_lora_rank": "512",
    "qk_head_dim": "128",
    "qk_pos_emb_head_dim": "64",
    "v_head_dim": "128",
}
"""Megatron-core's defaults of a model with latent attention."""
_TOPK = 2
"""Megatron-core's default."""
_STAGES = "pipeline_model_parallel_layout"
_START = re.compile(r"Starting training loop at iteration (\d{1,15})\b")


class MegatronBridge(Megatron):
    """NeMo's successor of 2025."""

    name = "megatron-bridge"
    step_needles = (b"Starting training loop at iteration", *Megatron.step_needles)
    fact_needles = (
        *Megatron.fact_needles,
        b" (Mcore default: ",
        b"batches to constant ",
        *(f"  {name}: ".encode() for name in (*_SIZES, *LAYOUT)),
        *(f"  {name}:".encode() for name in _OPTIONS),
        _LATENT.encode(),
    )
    closing = ("TFLOP/s/GPU", "|")
    one_rank_prints = False  # the first rank prints one line of a step, and the last rank the other
    printed_conventions = (
        "full",
        "causal",
        "causal_ungated",
        "causal_unwindowed",
        "causal_ungated_unwindowed",
    )

    def __init__(self) -> None:
        super().__init__()
        self._stages = False
        """The layers of the stages are listed, which hides vp."""

    def read(self, line: Line) -> None:
        """Either line of a step, or a fact."""
        if match := _START.search(line.text):
            self._step = int(match[1])
            self._unnumbered.new_segment()
        elif STEP_TIME.search(line.text):
            for record in self.records(line.text):
                self.add(record, line.number)
        elif "elapsed" not in line.text or len(self._unnumbered):
            super().read(line)

    def records(self, text: str) -> Iterator[Record]:
        """The lines of rank 0, else those of the last rank; these alone are plain
        Megatron's.
        """
        if "Starting training loop at iteration" in text:
            return
        if len(self._unnumbered) or "Step Time" in text:
            yield from super().records(text)

    @property
    def seen(self) -> bool:
        """Its own line is the unnumbered one."""
        return len(self._unnumbered) > 0

    def read_facts(self, text: str) -> None:
        """A line of the summary, as one of Megatron-LM's arguments; the number of
        micro-batches, which follows it.
        """
        facts = self.facts
        if setting := _SETTING.search(text):
            name, value = setting[1], setting[2].strip("'")
            self._stages |= name == _STAGES
            self.argument(_NAMES.get(name, name), value)
            if name == "multi_latent_attention" and not is_off(value):
                facts.options = {**_LATENT_SIZES, **(facts.options or {})}
        elif _LATENT in text:
            facts.options = {**_LATENT_SIZES, **(facts.options or {})}
        elif (option := _OPTION.search(text)) and option[1] in _OPTIONS:
            self.argument(option[1], option[2] or BELOW)
        elif (size := _SIZE.search(text)) and size[1] in _SIZES:
            facts.take(_SIZES[size[1]], int(size[2]))
        elif size and size[1] in LAYOUT:
            # A configuration printed whole, as YAML: the tokenizer's values follow the
            # model's.
            degree = fact_of(LAYOUT[size[1]], int(size[2]))
            setattr(facts, LAYOUT[size[1]], getattr(facts, LAYOUT[size[1]]) or degree)
        elif match := MICROBATCHES.search(text):
            self._spread(int(match[1]))
        else:
            super().read_facts(text)

    def _spread(self, microbatches: int) -> None:
        """Complete the facts: what the summary leaves out is Megatron-core's default;
        the batch gives the number of ranks.
        """
        facts = self.facts
        if not (facts.gbs and facts.mbs and (facts.num_layers or facts.tp)):
            return
        for name in ("tp", "pp", "cp", "ep"):
            setattr(facts, name, getattr(facts, name) or 1)
        facts.vp = facts.vp or (None if self._stages else 1)
        facts.topk = facts.topk or (_TOPK if facts.num_experts else None)
        ways = (facts.tp or 1) * (facts.pp or 1) * (facts.cp or 1)
        ranks, rest = divmod(facts.gbs * ways, facts.mbs * microbatches)
        facts.num_gpus = facts.num_gpus or (fact_of("num_gpus", ranks) if not rest else None)
