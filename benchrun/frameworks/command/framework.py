"""command: any program that prints its steps."""

from benchrun.frameworks.base import Framework
from benchrun.runspec.command import CommandSpec, Stated, fixed_text


class Command(Framework):
    """Starts the program of a recipe once for each rank."""

    name = "command"
    workload = "command"
    tasks = frozenset({"pretrain", "sft", "lora"})
    precisions = frozenset({"fp32", "bf16", "fp8", "nvfp4"})
    needs_gpu = False
    step_lines = ()
    stderr_steps = True

    def step_words(self, spec: CommandSpec) -> tuple[str, ...]:
        """The fixed text of the recipe's expression."""
        return (fixed_text(spec.step_line),)

    def statement(self, spec: CommandSpec) -> str:
        """The expression, and what the program's log may lack."""
        return Stated.line(spec)
