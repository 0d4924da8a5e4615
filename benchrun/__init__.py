"""benchrun: does my cluster train large language models as fast as it should, and if
not, why?

From Python (docs/how-to/python.md):

    import benchrun

    run = benchrun.load("slurm-1234.out", recipe="llama3.1-8b")  # a run, its id, or a log
    run.metrics["tokens_per_s_per_gpu"], run.steps  # numbers; a pandas frame of the steps
    benchrun.frame("results/runs", "old.log")  # a pandas frame, one row per run
    benchrun.compare(run).verdict  # against a published number
    benchrun.diff("A", "B").ratio  # two runs or logs
"""

from importlib import import_module
from typing import Any

__version__ = "0.2.0"
__all__ = ["Run", "compare", "diff", "frame", "load"]  # benchrun/__init__.pyi has their types


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'benchrun' has no attribute '{name}'")
    # Pandas and pydantic, which `--help` does without.
    return getattr(import_module("benchrun.python"), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]  # what a notebook completes
