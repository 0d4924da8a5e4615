"""Explanation of a step of post-training, by the timers that its log has; nothing of
plain training.
"""

from benchrun.measure.model import Measurement

from .model import DIGITS, UNSEPARATED, Explanation, Part

STAGES = {
    "generation_s": "generation",
    "logprob_s": "log-probabilities",
    "critic_wait_s": "waiting for the critic",
    "training_s": "training",
    "weight_sync_s": "weight sync",
}
"""Timers of stages that follow one another, and their names."""
ROUNDING = 0.005
"""Share of a step by which timers of few digits may add up to more than it."""


def explain_stages(name: str, numbers: Measurement) -> Explanation | None:
    """The stages of the run ``name``, in seconds of its mean step; None if no step was
    timed.
    """
    step_s = None
    if numbers.step_time_s:
        step_s = numbers.step_time_s.mean
    if not step_s:
        return None
    timed = {}
    for key, words in STAGES.items():
        if key in numbers.quantities:
            timed[words] = numbers.quantities[key].mean
    spent = sum(timed.values())
    missing = (
        []
        if timed
        else ["timers of the stages would separate generation, training and weight sync"]
    )
    if spent > step_s * (1 + ROUNDING):
        each = ", ".join(f"{words} {seconds:.4g} s" for words, seconds in timed.items())
        missing.append(f"the stages overlap, so that they are no parts of the step: {each}")
        timed = {}
        spent = 0.0
    scale = 1.0
    if spent:
        scale = min(1.0, step_s / spent)
    parts = []
    for words, seconds in timed.items():
        parts.append((words, seconds * scale, f"{words}: the log's timer, mean"))
    rest = max(step_s - spent, 0.0)
    what = "a step without timers of its stages"
    if timed:
        what = f"{UNSEPARATED}: rewards, data, and what else the timers do not hold"
    if rest or not parts:
        parts += [(what, rest, "the step less its stages")]
    return Explanation(
        run=name,
        step_time_s=round(step_s, DIGITS),
        waterfall=[
            Part(part=part, seconds=round(seconds, DIGITS), evidence=how)
            for part, seconds, how in parts
        ],
        causes=[],
        missing=missing,
    )
