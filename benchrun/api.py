"""The Python API: every use case of the command line as a typed function. Names are
imported on first use.

    from benchrun import api

    (spec,) = api.resolve(api.Request("llama3.1-8b", "H100", "fp8", 64))
    run = api.start(spec)
    api.wait(run)
    judgement = api.judge_runs([run])  # reads only
    api.store_judgement(judgement)  # writes into the run
    print(judgement.verdict.headline)

Every function raises UserError for wrong input and MachineError if Slurm or the machine
fails (`benchrun.errors`). Functions named ``store_*``, ``record_*``, ``start``,
``cancel``, ``keep`` and ``write_*`` write; all others read only.
"""

import re
from pathlib import Path
from typing import Any

from benchrun import extensions

_STUB = Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8")
"""The names of the API and their modules, listed once: type checkers read the stub too.
"""
_MODULES = {
    name: module
    for module, name in re.findall(r"^from (\S+) import (\w+) as ", _STUB, re.MULTILINE)
}
__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'benchrun.api' has no attribute '{name}'")
    return extensions.imported(f"{_MODULES[name]}:{name}")


def __dir__() -> list[str]:
    return __all__  # what a notebook completes
