"""Statements of any program's log on its configuration and machine before the first step:
products of few bits, and the cards that ``nvidia-smi -L`` lists.

    fp8_recipe: mxfp8           "load_in_4bit": true
    GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-1b2c)
"""

import re

from benchrun import hardware

from .records import Facts

_SWITCH = re.compile(
    r"(?<![\w.])['\"]?((?:nv|mx)?fp[48]|fp[48]_recipe|mixed_precision|load_in_[48]bit)['\"]?"
    r"\s?[:=]\s?['\"]?((?i:true)|hybrid|e\dm\d|delayed|tensorwise|blockwise|(?:nv|mx)?fp[48])\b"
)
_CARD = re.compile(r"\bGPU \d{1,3}: (NVIDIA [^()]{1,80}) \(UUID: GPU-")
NEEDLES = (
    *(f"fp{bits}{after}".encode() for bits in (4, 8) for after in (": ", "=", "': ", '": ')),
    b"mixed_precision",
    b"_in_4bit",
    b"_in_8bit",
    b"fp8_recipe",
    b"fp4_recipe",
    b"(UUID: GPU-",
)


def take(text: str, facts: Facts) -> None:
    """Take a line.

    Weights that are stored in few bits are computed in more, which is work of its own.
    """
    if card := _CARD.search(text):
        facts.device = facts.device or card[1]
        names = hardware.name_of(facts.device), hardware.name_of(card[1])
        if None not in names and names[0] != names[1]:
            facts.other_device = card[1]
    for name, value in _SWITCH.findall(text):
        if name.startswith("load_in"):
            facts.add_options({name: value})
        else:
            facts.switch(name, value)
