"""OpenRLHF: a dictionary of Python a step.

    INFO 08-13 19:25:45 ppo_trainer.py:547] ✨ Global step 3: {'policy_loss': -0.01, ..., 'timing/step_total': 41.2}

``timing/step_total`` is the sum of the stages, or of an asynchronous run the wall time, which is less: generation runs
beside the training. Source: OpenRLHF/OpenRLHF openrlhf/trainer/ppo_trainer.py, ppo_trainer_async.py.
"""

import re

from benchrun.frameworks.dialects.rollouts import Rollouts, first
from benchrun.parse.dialect import count, number, positive
from benchrun.parse.lines import Line
from benchrun.parse.rows import Step

_STEP = re.compile(r"Global step (\d{1,15}): \{([^{}]*)\}")
_PAIR = re.compile(r"'([^']{1,80})': (?:np\.\w{1,16}\(|tensor\()?([^,(){}\s]{1,40})")


class OpenRLHF(Rollouts):
    """OpenRLHF since 2025."""

    name = "openrlhf"
    step_needles = (b"'timing/step_total': ", b"'timing/ppo_train': ")

    def read(self, line: Line) -> None:
        """A step."""
        for head in _STEP.finditer(line.text):
            values = dict(_PAIR.findall(head[2]))
            times = {name[7:]: value for name, value in values.items() if name.startswith("timing/")}
            step, time_s = count(head[1]), first(times, "step_total")
            if step is None or time_s is None:
                continue
            row = Step(
                step,
                time_s,
                line.number,
                loss=number(values.get("policy_loss")),
                grad_norm=number(values.get("actor_grad_norm")),
            )
            quantities = {
                "generation_s": first(times, "generation"),
                "training_s": first(times, "ppo_train"),
                "logprob_s": first(times, "make_experience"),
                "weight_sync_s": first(times, "broadcast"),
                "reward": number(values.get("reward")),
                "response_tokens": positive(values.get("response_length")),
            }
            self.add_step(row, quantities)
