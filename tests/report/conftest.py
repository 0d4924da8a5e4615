"""Reports that several test files read."""

import pytest

from benchrun import api, paths
from benchrun.capabilities.studies.html import study_html
from benchrun.judge.measured import load_measured
from benchrun.runspec.spec import TrainingSpec
from benchrun.show.data import RunData
from benchrun.show.model import ReportModel
from docs.pages.studies import kept_study


@pytest.fixture(scope="session")
def kept() -> list[RunData]:
    """Every kept run."""
    return [api.run_data(run) for run in api.find_runs(paths.MEASURED)]


@pytest.fixture(scope="session")
def report(kept: list[RunData]) -> ReportModel:
    """On every kept run."""
    return api.report_on(kept)


def runs_of(recipe: str, count: int) -> list[RunData]:
    """The first kept runs of a recipe."""
    found = [run for run in api.find_runs(paths.MEASURED) if run.run_id.startswith(recipe)]
    return [api.run_data(run) for run in found[:count]]


@pytest.fixture(scope="session")
def few() -> ReportModel:
    """On a few kept runs of one recipe."""
    return api.report_on(runs_of("llama3.1-8b-", 6))


@pytest.fixture(scope="session")
def two() -> ReportModel:
    """On two runs of one recipe."""
    return api.report_on(runs_of("llama3.1-8b-", 2))


@pytest.fixture(scope="session")
def scaling_study(kept: list[RunData]) -> ReportModel:
    """On the runs of one whole model on 1, 2 and 4 GPUs: a weak and a strong curve."""
    wanted = ("llama3.1-8b", "H200", "fp8", 32)
    specs = [(run, run.result.spec) for run in kept if isinstance(run.result.spec, TrainingSpec)]
    return api.report_on(
        [run for run, spec in specs if (spec.recipe, spec.gpu, spec.precision, spec.model.num_layers) == wanted]
    )


@pytest.fixture(scope="session")
def study_page(kept: list[RunData]) -> str:
    """The page of a study whose runs are kept."""
    study, _ = kept_study("num-workers", load_measured())
    names = {name for point in study.points for name in point.runs}
    return study_html(study, api.report_on([run for run in kept if run.result.run_id in names]))
