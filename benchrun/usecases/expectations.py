"""The step time that a run should have, from any capability or package that can say it."""

from benchrun import extensions
from benchrun.judge.expected import Expectation
from benchrun.runspec.spec import RunSpec


def expected_step(spec: RunSpec) -> Expectation | None:
    """The expected step of a run, of a package of the site before benchrun's own; None
    if nothing can say it.
    """
    for name in reversed(extensions.names("expectations")):
        expected: Expectation | None = extensions.load("expectations", name)(spec)
        if expected is not None:
            return expected
    return None
