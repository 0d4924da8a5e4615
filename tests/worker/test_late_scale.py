"""The loss's scale behind the logits' gradient gives the gradients that it gives on the logits, on the CPU.

transformer-engine's loss runs on a GPU alone: here a loss stands for it that calls the same functions.
"""

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="training needs pip install '.[train]'")
pytest.importorskip("megatron.core", reason="training needs pip install '.[train]'")

from torch.autograd import Function  # noqa: E402
from torch.nn import Module  # noqa: E402

from benchrun.errors import UserError  # noqa: E402
from benchrun.recipes.resolve import resolve  # noqa: E402
from benchrun.recipes.select import Request  # noqa: E402
from benchrun.worker.kernels import LateScale  # noqa: E402
from benchrun.worker.te import add_weight_gradient  # noqa: E402

TOKENS, WIDTH, WORDS = 12, 8, 20


class Losses(Function):
    """The loss of each token; its gradient is transformer-engine's: softmax less one, then what each loss counts."""

    @staticmethod
    def forward(ctx: Any, logits: Any, labels: Any, late: LateScale) -> Any:
        ctx.late = late
        chance = torch.softmax(logits, -1)
        ctx.save_for_backward(chance - torch.nn.functional.one_hot(labels, WORDS))
        return -chance.gather(-1, labels[:, None]).log()[:, 0]

    @staticmethod
    def backward(ctx: Any, grad: Any) -> tuple[Any, None, None]:
        return ctx.late.logits_gradient(ctx.saved_tensors[0], grad, False), None, None


class Output(Module):
    """An output layer that adds its weight gradient as megatron.core's does."""

    def __init__(self, weight: Any, add: Any) -> None:
        super().__init__()
        self.weight, self.add = weight, add

    def forward(self, x: Any) -> Any:
        layer = self

        class Product(Function):
            @staticmethod
            def forward(ctx: Any, x: Any) -> Any:
                ctx.save_for_backward(x)
                return x @ layer.weight.t()

            @staticmethod
            def backward(ctx: Any, grad: Any) -> Any:
                layer.add(ctx.saved_tensors[0], grad, layer.weight.main_grad)
                return grad @ layer.weight

        return Product.apply(x)


def test_two_micro_batches_have_the_same_gradients() -> None:
    torch.manual_seed(1)
    weight, late = torch.randn(WORDS, WIDTH, dtype=torch.float64), LateScale()
    weight.main_grad = torch.zeros_like(weight)  # type: ignore[attr-defined]
    output = Output(weight, late.weight_gradient(add_weight_gradient))
    output.register_forward_pre_hook(late.before_output_layer)
    plain = weight.clone().requires_grad_()
    for share in (0.5, 0.25):  # a scale of its own in each
        x, labels = torch.randn(TOKENS, WIDTH, dtype=torch.float64), torch.randint(WORDS, (TOKENS,))
        mine, other = (x.clone().requires_grad_() for _ in range(2))
        (Losses.apply(output(mine), labels, late).mean() * share).backward()
        (torch.nn.functional.cross_entropy(other @ plain.t(), labels) * share).backward()
        torch.testing.assert_close(mine.grad, other.grad)
    torch.testing.assert_close(weight.main_grad, plain.grad)


@pytest.mark.parametrize(
    ("recipe", "override", "named"),
    [
        ("nemotron4-15b", "training.swiglu=transformer_engine", "swiglu"),
        ("llama3.1-8b", "training={swiglu: transformer_engine, fused_kernels: false}", "fused_kernels"),
        ("llama3.1-8b", "training={swiglu: transformer_engine, fp8: {store_activation_input: true}}", "FP8"),
        ("llama3.1-8b", "training={late_loss_scale: true, fused_kernels: false}", "late_loss_scale"),
        ("llama3.1-8b", "model.mtp_layers=1", "multi-token"),
        ("llama3.1-8b", "training.fp8={fast_gradients: true, recipe: blockwise}", "fast_gradients"),
    ],
)
def test_a_kernel_that_the_run_has_not_is_refused(recipe: str, override: str, named: str) -> None:
    late = ["training.late_loss_scale=true"] if "mtp" in override else []
    with pytest.raises(UserError) as error:
        resolve(Request(recipe, "H100", "fp8", 8, "megatron-core", overrides=(override, *late)))
    assert named in str(error.value)


def test_a_cpu_has_none_of_the_kernels() -> None:
    for override in ("training.swiglu=transformer_engine", "training.late_loss_scale=true"):
        with pytest.raises(UserError, match="need a GPU"):
            resolve(Request("tiny-llama", "CPU", "fp32", 1, overrides=(override,)))
