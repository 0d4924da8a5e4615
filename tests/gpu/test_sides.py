"""The order in which measure.sh runs frameworks side by side, and which runs it repeats."""

from typing import Any

import pytest
from sides import again, ordered, unsteady


def run(framework: str, **settings: Any) -> dict[str, Any]:
    point = {"recipe": "llama3.1-8b", "gpu": "H100", "precision": "fp8", "num_gpus": 4}
    return point | {"framework": framework, "set": settings}


def test_each_point_runs_forth_and_back_on_the_gpu_that_is_there() -> None:
    suite = [
        *(run(name, gbs=32, training={"steps": 14}) for name in "AB"),
        run("C", gbs=32, **{"training.steps": 11}),
        *(run(name, gbs=8) for name in "DE"),
    ]
    order = ordered(suite, "H200", 3)
    assert "".join(each["framework"] for each in order) == "ABCCBAABC" + "DEEDDE"
    assert {each["gpu"] for each in order} == {"H200"}


def metrics(low: float, high: float, behind: float | None = None) -> dict[str, Any]:
    slowest = None if behind is None else {"behind_percent": behind}
    return {"step_time_s": {"median": 1.0, "p5": low, "p95": high}, "ranks": {"slowest": slowest}}


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (metrics(0.99, 1.01), False),
        (metrics(0.95, 1.02), True),
        (metrics(0.99, 1.01, behind=1.6), False),
        (metrics(0.99, 1.01, behind=3.1), True),
        ({"step_time_s": None, "ranks": None}, False),
        (None, False),
    ],
)
def test_steps_that_vary_and_a_slow_rank_are_no_measurement(document: dict[str, Any] | None, expected: bool) -> None:
    assert unsteady(document) is expected


def test_only_unsteady_runs_are_repeated() -> None:
    documents = {"1": metrics(0.9, 1.1), "2": metrics(1.0, 1.0), "3": None}
    assert again([run("A"), run("B"), run("C")], ["1", "2", "3"], documents.get) == [run("A")]
