"""Facts that Lightning and Megatron-core print before the first step, in every NeMo."""

import re

from benchrun.logs.records import FROZEN, Facts

FACTS = (
    re.compile(r"MEMBER: \d{1,9}/(?P<num_gpus>\d{1,9})\b"),
    re.compile(r"processes registered\. Starting with (?P<num_gpus>\d{1,9}) processes"),
    re.compile(r"using a CUDA device \('(?P<device>[^']{1,100})'\)"),
)
"""Facts that Lightning prints, most of them on stderr."""
NEEDLES = (
    b"GLOBAL_RANK: 0, MEMBER: ",
    b"processes registered. Starting with ",
    b"using a CUDA device ('",
)

_GROUP = re.compile(r"\bRank 0 has ([a-z ]+?) parallel group ?: \[([\d, ]+)\]")
MICROBATCHES = re.compile(r"setting number of micro-?batches to constant (\d{1,9})\b")
_DEGREES = {"tensor model": "tp", "pipeline model": "pp", "context": "cp", "data": "dp"}
LORA = "Adding lora to: "
"""The line of each layer that gets an adapter."""
_FROZEN = re.compile(r"(?<!\S)([\d.]+(?: [KMBT])?) +Non-trainable params")
_TRAINED = re.compile(r"number of trainable parameters: \d{1,20} \(([\d.]{1,10})% of total\)")
_ALL = 99.99
"""Per cent."""
WORK_NEEDLES = (b" Non-trainable params", b"number of trainable parameters: ")


def read_work(text: str, facts: Facts) -> None:
    """Take the parameters that are not trained."""
    if (frozen := _FROZEN.search(text)) and float(frozen[1].split()[0]):
        facts.add_options({FROZEN: frozen[1]})
    if (trained := _TRAINED.search(text)) and float(trained[1]) < _ALL:
        facts.add_options({FROZEN: f"all but {trained[1]} %"})


SPREAD_NEEDLES = (b"Rank 0 has ", b"batches to constant ")


class Spread:
    """How a model is spread over its ranks, from the groups of rank 0 and its number of
    micro-batches.
    """

    def __init__(self) -> None:
        self.degrees: dict[str, int] = {}
        self.microbatches: int | None = None

    def read(self, text: str, facts: Facts) -> None:
        """Take one line. The degrees become ``facts`` if all are known, and no pipeline
        hides its vp.
        """
        for kind, ranks in _GROUP.findall(text):
            if kind in _DEGREES:
                self.degrees[_DEGREES[kind]] = ranks.count(",") + 1
        if self.microbatches is None and (match := MICROBATCHES.search(text)):
            self.microbatches = int(match[1])
        if len(self.degrees) < len(_DEGREES):
            return
        tp = self.degrees["tp"]
        pp = self.degrees["pp"]
        cp = self.degrees["cp"]
        dp = self.degrees["dp"]
        facts.num_gpus = facts.num_gpus or tp * pp * cp * dp
        if pp == 1:
            facts.tp, facts.pp, facts.cp = tp, pp, cp

    def micro_batch(self, gbs: int | None) -> int | None:
        """The micro-batch of a global batch; None if it does not follow."""
        sequences = self.degrees.get("dp", 0) * (self.microbatches or 0)
        if gbs and sequences and gbs % sequences == 0:
            return gbs // sequences
        return None
