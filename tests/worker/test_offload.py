"""Activations in host memory: the same losses, every large tensor moved, and no more than two layers on the device."""

import re
from pathlib import Path
from typing import Any

import forked
import pytest
from selection import some

from benchrun.recipes.resolve import resolve
from benchrun.recipes.select import Request

pytestmark = pytest.mark.train
pytest.importorskip("torch", reason="training needs pip install '.[train]'")

import torch  # noqa: E402

from benchrun.worker import offload  # noqa: E402

OFFLOAD = "training.offload_activations=true"
SMALL = ("training.steps=3", "seq_length=64")


class Layer(torch.nn.Module):
    """Saves its input, a product and an output of an activation, one tensor twice."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(16, 16) / 4)

    def forward(self, x: Any) -> Any:
        inner = torch.tanh(x @ self.weight)
        return x + inner * inner


def gradients(layers: Any, micro_batches: int = 2) -> list[Any]:
    """Gradients of all weights after some forward and backward passes."""
    torch.manual_seed(1)
    for layer in layers:
        layer.weight.grad = None
    for _ in range(micro_batches):
        x = torch.randn(4, 16, requires_grad=True)
        for layer in layers:
            x = layer(x)
        x.square().sum().backward()
    return [layer.weight.grad.clone() for layer in layers]


@pytest.fixture
def layers() -> Any:
    torch.manual_seed(0)
    return [Layer() for _ in range(5)]


def test_gradients_stay_equal_to_the_last_bit(layers: Any) -> None:
    before = gradients(layers)
    offload.install(layers, gpu=False)
    after = gradients(layers)
    assert all(torch.equal(one, other) for one, other in zip(before, after, strict=True))


def test_two_layers_at_most_are_on_the_device(layers: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    groups: list[Any] = []
    held: list[tuple[str, int]] = []
    build = offload._Group.__init__

    def noted(group: Any, *args: Any) -> None:
        build(group, *args)
        groups.append(group)
        held.append(("forward", sum(bool(each.device) for each in groups)))

    unpack = offload._Group.unpack

    def looked(group: Any, packed: Any) -> Any:
        tensor = unpack(group, packed)
        held.append(("backward", sum(any(each is not None for each in other.device) for other in groups)))
        return tensor

    monkeypatch.setattr(offload._Group, "__init__", noted)
    monkeypatch.setattr(offload._Group, "unpack", looked)
    offload.install(layers, gpu=False)
    gradients(layers, micro_batches=1)
    assert len(groups) == len(layers)
    assert {kind for kind, _ in held} == {"forward", "backward"}
    assert max(count for _, count in held) == 2
    assert not any(any(each is not None for each in group.device) or group.host for group in groups)  # all given back


def test_a_tensor_that_is_saved_twice_is_copied_once(layers: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    copied: list[int] = []
    start = offload._Copies.start

    def counted(copies: Any, targets: Any, sources: Any) -> Any:
        copied.append(len(targets))
        return start(copies, targets, sources)

    monkeypatch.setattr(offload._Copies, "start", counted)
    offload.install(layers, gpu=False)
    gradients(layers, micro_batches=1)
    # Input and tanh's output, which the product saves twice and tanh once; the weight stays. There and back.
    assert sum(copied) == 2 * (2 * (len(layers) - 1))


def losses(folder: Path, module: str, *point: Any, overrides: tuple[str, ...]) -> list[float]:
    """The losses that a real run on one CPU prints."""
    spec = resolve(Request(*point, overrides=(*SMALL, *overrides)))
    path = folder / "spec.json"
    path.write_text(spec.model_dump_json())
    result = forked.run(module, path, 1)
    assert result.returncode == 0, result.stderr[-3000:]
    return [float(text) for text in re.findall(r"(?:lm loss: |'loss': '?)([-+\d.eE]+)", result.stdout)]


@pytest.mark.parametrize(
    ("module", "recipe", "precision", "needs"),
    some(
        [
            ("benchrun.worker", "tiny-llama", "fp32", "megatron.core"),
            ("benchrun.worker", "tiny-llama", "bf16", "megatron.core"),
            ("benchrun.worker.huggingface", "tiny-llama-lora", "bf16", "peft"),
            ("benchrun.worker.huggingface", "tiny-llama-sft", "fp32", "transformers"),
        ],
        1,
    ),
)
def test_training_gives_the_same_losses(tmp_path: Path, module: str, recipe: str, precision: str, needs: str) -> None:
    """But for the last digits: a slice of a tensor comes back whole, and is multiplied in another order."""
    pytest.importorskip(needs)
    point = (recipe, "CPU", precision, 1)
    plain = losses(tmp_path, module, *point, overrides=())
    assert len(plain) == 3
    assert losses(tmp_path, module, *point, overrides=(OFFLOAD,)) == pytest.approx(plain, rel=2e-6)
