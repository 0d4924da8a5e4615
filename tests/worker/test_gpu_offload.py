"""Activations in host memory on a GPU: the same gradients, less memory; and transformer-engine's own in the worker."""

import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from calling import DEADLINE_S

torch: Any = pytest.importorskip("torch", reason="training needs pip install '.[train]'")
if not torch.cuda.is_available():
    pytest.skip("no GPU", allow_module_level=True)

from benchrun.recipes.resolve import resolve  # noqa: E402
from benchrun.recipes.select import Request  # noqa: E402
from benchrun.worker import offload  # noqa: E402
from benchrun.worker.clock import StepClock  # noqa: E402

pytestmark = pytest.mark.train
LAYERS, WIDTH, TOKENS = 8, 1024, 16384


def trained(layers: Any) -> tuple[list[Any], int]:
    """Gradients of two micro-batches, and the peak of allocated bytes."""
    torch.manual_seed(1)
    torch.cuda.reset_peak_memory_stats()
    for layer in layers:
        layer.weight.grad = None
    for _ in range(2):
        x = torch.randn(TOKENS, WIDTH, device="cuda", requires_grad=True)
        for layer in layers:
            x = x + torch.tanh(layer(x))
        x.square().mean().backward()
    torch.cuda.synchronize()
    return [layer.weight.grad.clone() for layer in layers], torch.cuda.max_memory_allocated()


def test_gradients_are_equal_and_the_memory_is_smaller() -> None:
    torch.manual_seed(0)
    layers = [torch.nn.Linear(WIDTH, WIDTH, bias=False, device="cuda") for _ in range(LAYERS)]
    expected, whole = trained(layers)
    offload.install(layers, gpu=True)
    gradients, smaller = trained(layers)
    for gradient, other in zip(gradients, expected, strict=True):
        torch.testing.assert_close(gradient, other, rtol=0, atol=0)
    one = TOKENS * WIDTH * 4
    assert smaller < whole - (LAYERS - 4) * one


def test_the_worker_gives_the_same_losses_with_transformer_engine(tmp_path: Path) -> None:
    pytest.importorskip("transformer_engine", reason="the GPU path needs transformer-engine")
    small = ("model.num_layers=6", "training.steps=4", "gbs=4", "mbs=1", "cluster.container.runtime=none")
    curves = []
    for setting in ("false", "true"):
        overrides = (*small, f"training.offload_activations={setting}")
        spec = resolve(Request("llama2-7b", "H100", "bf16", 1, "megatron-core", overrides=overrides))
        path = tmp_path / setting / "spec.json"
        path.parent.mkdir()
        path.write_text(spec.model_dump_json())
        command = [sys.executable, "-m", "benchrun.worker", "--spec", str(path)]
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))}
        run = subprocess.run(
            command, capture_output=True, text=True, timeout=DEADLINE_S, env=env, cwd=path.parent, check=False
        )
        assert run.returncode == 0, run.stderr
        peak = float(re.findall(r'"peak_memory_gib": ([\d.]+)', run.stdout)[0])
        curves.append(([float(text) for text in re.findall(r"lm loss: (\S+)", run.stdout)], peak))
    (plain, whole), (offloaded, smaller) = curves
    assert offloaded == pytest.approx(plain, rel=1e-4)
    assert smaller < whole


def test_copies_are_no_wait_for_other_ranks() -> None:
    """The step waits for them on its own stream, as it waits for what FSDP communicates on others."""
    layout, training = SimpleNamespace(cp=1), SimpleNamespace(tp_comm_overlap=False, cuda_graphs="none")
    clock = StepClock(SimpleNamespace(gpu="H100", num_gpus=2, layout=layout, training=training), streams=True)
    layers = [torch.nn.Linear(WIDTH, WIDTH, bias=False, device="cuda") for _ in range(LAYERS)]
    offload.install(layers, gpu=True)
    other = torch.cuda.Stream()
    with clock:
        for number in (1, 2):
            clock.start()
            trained(layers)
            if number == 2:  # what FSDP does
                torch.cuda.current_stream().wait_stream(other)
            clock.end_step(number)
        torch.cuda.synchronize()
        waits = [len(calls) // 2 for *_, calls in clock._unread]
    assert waits == [0, 1]
