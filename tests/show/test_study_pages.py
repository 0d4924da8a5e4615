"""docs/studies.md: every GPU on which a study was measured has its table; profiled runs are points like others."""

from dataclasses import replace

import pytest

from benchrun.judge.measured import MeasuredRun, load_measured
from benchrun.rundir.artifacts import Breakdown
from benchrun.runspec.profile import Profile
from docs.pages import studies

STEP = Breakdown(step_s=0.7, matmul_s=0.4, attention_s=0.1, other_s=0.15, communication_s=0, idle_s=0.05, hidden_s=0)


def on_h200(run: MeasuredRun) -> MeasuredRun:
    """The run as one on another GPU, with a profile and the parts of a step."""
    changed = {"gpu": "H200", "profile": Profile(tool="kineto"), "profiled_steps": (13, 15)}
    metrics = run.metrics.model_copy(update={"breakdown": STEP})
    return replace(run, spec=run.spec.model_copy(update=changed), metrics=metrics)


@pytest.fixture(scope="module")
def page() -> str:
    kept = load_measured()
    return studies.page([*kept, *map(on_h200, (run for run in kept if run.spec.gpu == "H100"))])


def test_each_gpu_has_its_table(page: str) -> None:
    section = page.split("## Micro-batch")[1].split("## ")[0]
    assert section.index("On one H100, 11 steps a run, of which 6 are measured") < section.index("On one H200")
    assert section.count("| mbs |") == 3  # both GPUs, and the parts of a step on one of them
    rows = [line for line in section.splitlines() if line.startswith("| 8 | 0.400 s | 0.100 s | 0.150 s | 0.050 s |")]
    assert len(rows) == 1
    assert "communication alone" not in section  # one GPU sends nothing


def test_runs_without_a_profiled_step_have_no_parts() -> None:
    section = studies.page(load_measured()).split("## Micro-batch")[1].split("## ")[0]
    assert "On one H200" not in section and "profiled step" not in section


def test_every_image_of_the_page_is_drawn(page: str) -> None:
    drawn = studies.images(load_measured())
    assert set(drawn) == {name for name in drawn if f"images/{name}" in page}
    assert all(name.endswith(("-h100.svg", "-h200.svg")) for name in drawn)
