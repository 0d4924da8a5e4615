"""Environment variables that depend on the layout and the GPU."""

import pytest

from benchrun.recipes.resolve import resolve
from benchrun.recipes.select import Request

QUEUES = "CUDA_DEVICE_MAX_CONNECTIONS"
SHARDED = (
    "layout={tp: 2, pp: 1, cp: 1, vp: 1, sequence_parallel: true, fsdp: 4}",
    "model.num_layers=8",
    "training.tp_comm_overlap=false",
)


@pytest.mark.parametrize("framework", ["megatron-core", "nemo2", "megatron-bridge"])
@pytest.mark.parametrize(
    ("gpu", "overrides", "queues"),
    [
        ("H100", ("layout={tp: 2, pp: 1, cp: 1, vp: 1, sequence_parallel: true}", "model.num_layers=8"), "1"),
        ("H100", SHARDED, None),  # megatron-core's FSDP refuses 1
        ("B200", ("layout={tp: 2, pp: 1, cp: 1, vp: 1, sequence_parallel: true}", "model.num_layers=8"), "32"),
        ("B200", ("layout={tp: 1, pp: 1, cp: 1, vp: 1, sequence_parallel: false}", "model.num_layers=8"), None),
    ],
)
def test_queues_of_kernels(framework: str, gpu: str, overrides: tuple[str, ...], queues: str | None) -> None:
    spec = resolve(Request("llama3.1-8b", gpu, "bf16", 8, framework, overrides=overrides))
    if (framework, gpu) == ("megatron-bridge", "B200"):
        queues = "32"  # as its own configurations have it, whatever the layout
    assert spec.env.get(QUEUES) == queues
