"""The Megatron-LM command uses only flags that its own parser has."""

from __future__ import annotations

import re
from pathlib import Path

GOLDEN = Path(__file__).parent.parent / "golden"
# Every --flag that megatron/training/arguments.py adds at the tag core_v0.13.0.
FLAGS = set((Path(__file__).parent / "megatron_lm_core_v0.13.0_flags.txt").read_text().split())


def test_every_flag_exists_in_the_release_the_image_carries():
    scripts = list(GOLDEN.glob("*_megatron-lm_*.sh"))
    assert scripts
    for script in scripts:
        command = script.read_text().split("command=(")[1].split("\n)\n")[0]
        used = set(re.findall(r"\s(--[a-z0-9-]+)", command))
        assert "--num-layers" in used
        assert used <= FLAGS, (script.name, used - FLAGS)
