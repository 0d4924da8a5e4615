"""trl, driven by benchrun/worker/rl: the worker's configuration as JSON, then a line of
JSON for each step.

benchrun config: {"recipe": "tiny-grpo", "planned_steps": 30, ..., "versions": {"trl":
"1.16.0", ...}} benchrun step: {"step": 3, "step_time_s": 1.25, "generation_s": 0.9,
"training_s": 0.2, "reward": 0.4, ...}
"""

from benchrun.frameworks.megatron_core.dialect import CONFIG, DONE, configure
from benchrun.logs.lines import Line, object_in
from benchrun.logs.numerals import count, number, positive, stated_loss
from benchrun.logs.rows import Step

from .rollouts import Rollouts

STEP = "benchrun step: "
OF_THE_ROW = ("step", "step_time_s", "policy_loss", "grad_norm")


class Trl(Rollouts):
    """The post-training of this repository."""

    name = "trl"
    step_needles = (STEP.encode(), DONE)
    fact_needles = (CONFIG,)
    closing = ("}",)

    def read(self, line: Line) -> None:
        """A step, or the configuration."""
        if STEP not in line.text:
            configure(self.facts, line.text, self.name)
            return
        values = {}
        for name, value in object_in(line.text.partition(STEP)[2]).items():
            if type(value) in (int, float, type(None)):
                values[name] = str(value)
        step, time_s = count(values.get("step")), positive(values.get("step_time_s"))
        if step is None or time_s is None or self.facts.framework_version is None:
            return
        row = Step(
            step,
            time_s,
            line.number,
            loss=stated_loss(values.get("policy_loss")),
            grad_norm=number(values.get("grad_norm")),
        )
        self.add_step(
            row, {name: number(value) for name, value in values.items() if name not in OF_THE_ROW}
        )
