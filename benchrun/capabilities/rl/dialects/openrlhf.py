"""OpenRLHF: a dictionary of Python a step.

    INFO 08-13 19:25:45 ppo_trainer.py:547] ✨ Global step 3: {'policy_loss': -0.01, ..., 'timing/step_total': 41.2}

``timing/step_total`` is the sum of the stages, or of an asynchronous run the wall time,
which is less: generation runs beside the training. Until March 2026 there were no
times: then a step's is that between its line and the one before, by their clocks of
whole seconds, with validations and checkpoints. Source: OpenRLHF/OpenRLHF
openrlhf/trainer/ppo_trainer.py, ppo_trainer_async.py, utils/logging_utils.py; logs of
jiosephlee/OpenRLHF-Tools.
"""

import re
from datetime import datetime

from benchrun.logs.lines import Line
from benchrun.logs.numerals import count, credible, number, positive, stated_loss
from benchrun.logs.rows import Step

from .rollouts import Rollouts, first

_STEP = re.compile(
    r"(?:(\d\d-\d\d \d\d:\d\d:\d\d) [\w.]{1,80}:\d{1,6}\] \W{0,4})?Global step (\d{1,15}): \{([^{}]*)\}"
)
_PAIR = re.compile(r"'([^']{1,80})': (?:np\.\w{1,16}\(|tensor\()?([^,(){}\s]{1,40})")
_LOSSES = {"policy_loss", "critic_loss"}


class OpenRLHF(Rollouts):
    """OpenRLHF since 2025."""

    name = "openrlhf"
    step_needles = (b"Global step ",)

    def __init__(self) -> None:
        super().__init__()
        self._last: tuple[int, float] | None = None
        """Step and clock in s of the last line with a clock."""

    def read(self, line: Line) -> None:
        """A step."""
        for clock, text, pairs in _STEP.findall(line.text):
            values, step = dict(_PAIR.findall(pairs)), count(text)
            times = {}
            for name, value in values.items():
                if name.startswith("timing/"):
                    times[name[7:]] = value
            if step is None or not (times or _LOSSES & values.keys()):
                continue
            time_s, interval = first(times, "step_total"), 1
            if time_s is None:
                time_s, interval = self._by_clock(step, clock)
            row = Step(
                step,
                time_s,
                line.number,
                interval=interval,
                loss=stated_loss(values.get("policy_loss")),
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

    def _by_clock(self, step: int, clock: str) -> tuple[float | None, int]:
        """Seconds a step since the line before, and steps since then; no time without
        one, or at the turn of a year.
        """
        clock_s = _seconds(clock)
        before, self._last = self._last, None if clock_s is None else (step, clock_s)
        if before is None or self._last is None or step <= before[0]:
            return None, 1
        steps = step - before[0]
        time_s = credible("step_time_s", (self._last[1] - before[1]) / steps)
        self.whole_seconds |= time_s is not None
        return time_s, steps


def _seconds(clock: str) -> float | None:
    """Seconds of a clock of month, day and time, in a year of 366 days; None for
    anything else.
    """
    try:
        return (
            datetime.strptime(f"2000-{clock}", "%Y-%m-%d %H:%M:%S") - datetime(2000, 1, 1)
        ).total_seconds()
    except ValueError:
        return None
