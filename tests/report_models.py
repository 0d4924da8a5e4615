"""Reports that several test files read."""

import pytest
from selection import some

from benchrun import api, paths
from benchrun.capabilities.studies.html import study_html
from benchrun.judge.measured import load_measured
from benchrun.judge.verdict import RunResult
from benchrun.runspec.spec import TrainingSpec
from benchrun.show.model import ReportModel
from docs.pages.studies import kept_study


@pytest.fixture(scope="session", params=some([12, 1], 1), ids=["every twelfth run", "every run"])
def report(request: pytest.FixtureRequest) -> ReportModel:
    """On kept runs of many recipes, and on all of those of a server."""
    found = api.find_runs(paths.MEASURED)
    served = [run for run in found if run.run_id.startswith("llama3.3-70b-inference-")]
    return api.report_on([api.run_data(run) for run in {*found[:: request.param], *served}])


def runs_of(recipe: str, count: int | None = None) -> list[RunResult]:
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
def scaling_study() -> ReportModel:
    """On the runs of one whole model on 1, 2 and 4 GPUs: a weak and a strong curve."""
    wanted = ("llama3.1-8b", "H200", "fp8", 32)
    specs = [(run, run.spec) for run in runs_of("llama3.1-8b-") if isinstance(run.spec, TrainingSpec)]
    return api.report_on(
        [run for run, spec in specs if (spec.recipe, spec.gpu, spec.precision, spec.model.num_layers) == wanted]
    )


@pytest.fixture(scope="session")
def study_page() -> str:
    """The page of a study whose runs are kept."""
    study, _ = kept_study("num-workers", load_measured())
    names = {name for point in study.points for name in point.runs}
    return study_html(study, api.report_on([api.run_data(api.open_run(name)) for name in sorted(names)]))
