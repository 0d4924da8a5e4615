"""The worker, which also prints what is in use after its first step: ``python telling.py --spec spec.json``."""

import importlib
import json
import runpy
from types import SimpleNamespace
from typing import Any

from benchrun.worker import entry

LOOP = "benchrun.worker.train"


def install() -> None:
    """Let the worker of this process print a line of `facts`. It imports nothing that the worker has to prepare."""
    entry.importlib = SimpleNamespace(import_module=_imported)  # type: ignore[attr-defined]


def _imported(name: str) -> Any:
    module: Any = importlib.import_module(name)
    if name == LOOP:
        loop, say = module._loop, module.log.say

        def telling(spec: Any, model: Any, optimizer: Any, *others: Any) -> None:
            def told(text: str) -> None:
                say(text)
                if "elapsed time per iteration" in text:
                    module.log.say = say
                    facts = importlib.import_module("facts").in_use(model, optimizer)
                    say(f"benchrun in use: {json.dumps(facts)}")

            module.log.say = told
            loop(spec, model, optimizer, *others)

        module._loop = telling
    return module


if __name__ == "__main__":
    install()
    runpy.run_module("benchrun.worker", run_name="__main__", alter_sys=True)
