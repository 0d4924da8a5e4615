"""The configuration that NeMo 1 prints before it trains, as far as it states the run.

    model:
      micro_batch_size: 1
      activation: fast-swiglu
Padded vocab_size: 51200, original vocab_size: 50257, dummy tokens: 943.
"""

import re

from benchrun.frameworks.megatron.dialect import FAMILY, LAYOUT
from benchrun.frameworks.options import BELOW, names, take_option
from benchrun.logs.numerals import fact_of
from benchrun.logs.precision import SWITCHES
from benchrun.logs.records import Facts

_VALUE = re.compile(r"(?<! ) {6,7}(\w{1,80}):(?: (\S.{0,600}?))?\s*$")
"""Value of ``trainer`` or ``model``, not of what is inside them."""
_PADDED = re.compile(r"\bPadded vocab_size: (\d{1,9}),")
_SIZES = {
    "num_layers": "num_layers",
    "hidden_size": "hidden_size",
    "ffn_hidden_size": "ffn_hidden_size",
    "num_attention_heads": "num_attention_heads",
    "num_query_groups": "num_query_groups",
    "kv_channels": "kv_channels",
    "moe_ffn_hidden_size": "moe_ffn_hidden_size",
    "global_batch_size": "gbs",
    "micro_batch_size": "mbs",
    "encoder_seq_length": "seq_length",
    **LAYOUT,
    "num_moe_experts": "num_experts",
    "moe_router_topk": "topk",
    "override_vocab_size": "vocab_size",
}
_OPTIONS = frozenset(names(FAMILY, "part", "work"))
_PEFT = re.compile(r" peft_scheme: (\S{1,80})\s*$")
NEEDLES = (
    *(f"      {name}: ".encode() for name in (*_SIZES, *SWITCHES, "activation")),
    *(f"      {name}:".encode() for name in _OPTIONS),
    b" train_ds:",
    b" peft_scheme: ",
    b"Padded vocab_size: ",
)


def read_config(text: str, facts: Facts) -> None:
    """Take one line."""
    if (padded := _PADDED.search(text)) and not facts.vocab_size:
        facts.vocab_size = fact_of("vocab_size", int(padded[1]))
    elif text.endswith(" train_ds:"):
        facts.seq_length = None  # a fine-tune: samples may be shorter
    elif scheme := _PEFT.search(text):
        if scheme[1] == "lora":
            facts.task = "lora"
        take_option(FAMILY, "peft_scheme", scheme[1], facts)
    elif (pair := _VALUE.search(text)) and (pair[2] or pair[1] in _OPTIONS):
        _take(pair[1], pair[2] or BELOW, facts)


def _take(name: str, value: str, facts: Facts) -> None:
    if name in _SIZES and value.isdigit():
        setattr(facts, _SIZES[name], fact_of(_SIZES[name], int(value)))
    elif name == "virtual_pipeline_model_parallel_size":
        facts.vp = 1
    elif name == "activation":
        facts.gated = "glu" in value
    elif name in SWITCHES:
        facts.switch(name, value)
    take_option(FAMILY, name, value, facts)
