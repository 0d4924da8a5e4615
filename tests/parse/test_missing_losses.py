"""A loss that a step of post-training states as null or None is not a number; a step without one may be sound."""

from pathlib import Path

import pytest
from test_rollouts import summary

CONFIG = 'benchrun config: {"recipe": "tiny-grpo", "planned_steps": 20, "versions": {"trl": "1.16.0"}}\n'


def without_losses(form: str, word: str, steps: range) -> str:
    """Twenty steps; those of ``steps`` state ``word`` in place of their loss."""
    lines = []
    for step in range(1, 21):
        loss = word if step in steps else f"{0.01 * step:.2f}"
        if form == "trl":
            loss = "null" if loss == "None" else loss
            row = f'{{"step": {step}, "step_time_s": 1.{step:02}, "policy_loss": {loss}}}'
            lines.append(f"benchrun step: {row}\n")
        elif form == "verl":
            lines.append(f"step:{step} - actor/pg_loss:{loss} - timing_s/gen:0.500 - timing_s/step:1.{step:02}0\n")
        else:
            values = f"{{'policy_loss': {loss}, 'timing/step_total': 1.{step:02}}}"
            lines.append(f"Global step {step}: {values}\n")
    return "".join([CONFIG if form == "trl" else "", *lines])


@pytest.mark.parametrize("form", ["trl", "verl", "openrlhf"])
@pytest.mark.parametrize("steps", [range(3, 21), range(1, 21)], ids=["most", "all"])
def test_a_loss_that_is_none_is_not_a_number(form: str, steps: range, tmp_path: Path) -> None:
    found = summary(tmp_path, without_losses(form, "None", steps))
    assert (found.num_steps, found.fatal and found.fatal.kind) == (20, "nan_loss")


@pytest.mark.parametrize("form", ["trl", "verl", "openrlhf"])
def test_a_sound_loss_is_none_in_no_step(form: str, tmp_path: Path) -> None:
    assert summary(tmp_path, without_losses(form, "None", range(0))).fatal is None


def test_steps_that_train_the_critic_alone_have_no_loss_of_the_policy(tmp_path: Path) -> None:
    text = without_losses("verl", "None", range(1, 9)).replace(" - actor/pg_loss:None", "")
    found = summary(tmp_path, text)
    assert (found.num_steps, found.fatal, found.problems) == (20, None, ())
