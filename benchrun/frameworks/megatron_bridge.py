"""megatron-bridge: Megatron-Bridge, in NeMo's containers from 25.09 on."""

from __future__ import annotations

from benchrun.frameworks.nemo import NeMoOfCore


class MegatronBridge(NeMoOfCore):
    """Its values are in a driver beside the job script."""

    name = "megatron-bridge"
    step_lines = ("elapsed time per iteration (", "Step Time : ")
    releases = ("25.09", None)
    files = ("train_megatron_bridge.py",)
