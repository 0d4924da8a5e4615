"""The search for the best layout, on measured layouts of A100 nodes and on simulated ones."""

import csv
from collections.abc import Sequence
from dataclasses import replace
from statistics import median

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchrun import api
from benchrun.capabilities.predict.fit import SINGLE_NODE
from benchrun.capabilities.predict.prediction import predict
from benchrun.capabilities.predict.rows import workload_of_row
from benchrun.capabilities.predict.workload import Workload
from benchrun.capabilities.studies.layouts import Candidate, ranked
from benchrun.capabilities.studies.search import Job, Search, Trial
from benchrun.errors import UserError
from benchrun.runspec.spec import TrainingSpec

START_S = 5.0


def spec_of(*overrides: str, recipe: str = "llama3.1-8b") -> TrainingSpec:
    sets = ("model.num_layers=8", *overrides)
    spec = api.resolve_point(api.Request(recipe, "H200", "bf16", 4, cluster="hgx-h200", overrides=sets))
    assert isinstance(spec, TrainingSpec)
    return spec


@pytest.fixture(scope="module")
def candidates() -> list[Candidate]:
    return ranked(spec_of(), {"mbs": [1, 2], "vp": [1, 2]})


def run(search: Search, truth: Sequence[float | None]) -> list[Trial]:
    """Every round of a search whose jobs take ``truth`` a step; None fails."""
    trials: list[Trial] = []
    for _ in range(200):
        jobs = search.next(trials)
        if not jobs:
            return trials
        for job in jobs:
            assert job not in [Job(trial.layout, trial.steps) for trial in trials], "the same job twice"
            step_s = truth[job.layout]
            trials.append(Trial(job.layout, job.steps, START_S + job.steps * (step_s or 0.0), step_s))
    raise AssertionError("the search does not end")


class TestLayouts:
    def test_each_is_legal_fits_and_can_be_launched(self, candidates: list[Candidate]) -> None:
        assert len(candidates) > 8
        assert len({each.name for each in candidates}) == len(candidates)
        medians = [each.prediction.median for each in candidates]
        assert medians == sorted(medians)
        for each in candidates:
            layout = each.spec.layout
            assert layout.tp * layout.pp * layout.cp * each.spec.dp == each.spec.num_gpus
            assert each.spec.num_microbatches * each.spec.mbs * each.spec.dp == each.spec.gbs == spec_of().gbs
            again = spec_of(*each.overrides)
            assert (again.layout, again.mbs, again.num_microbatches) == (
                layout,
                each.spec.mbs,
                each.spec.num_microbatches,
            )

    def test_all_of_them_are_among_the_divisors(self, candidates: list[Candidate]) -> None:
        spreads = {(each.spec.layout.tp, each.spec.layout.pp) for each in candidates}
        assert {(1, 1), (2, 1), (4, 1), (1, 2), (2, 2), (1, 4)} >= spreads >= {(2, 1), (1, 2)}

    def test_what_does_not_fit_is_left_out(self) -> None:
        found = ranked(spec_of(), {"tp": [1], "pp": [1], "cp": [1], "mbs": [1, 2, 32]})
        assert {each.spec.mbs for each in found} == {1, 2}

    def test_experts_are_spread(self) -> None:
        found = ranked(spec_of("model.num_layers=4", recipe="mixtral-8x7b"), {"mbs": [1]})
        assert {each.spec.layout.ep for each in found} >= {1, 2, 4}

    def test_stages_that_a_recipe_names_keep_their_number(self) -> None:
        point = api.resolve_point(api.Request("deepseek-v3", "H100", "bf16", 1024))
        assert isinstance(point, TrainingSpec)
        found = ranked(point, {"tp": [1, 2], "cp": [1], "ep": [32, 64], "mbs": [1]})
        assert point.layout in [each.spec.layout for each in found]
        assert {each.spec.layout.pp * each.spec.layout.vp for each in found} == {32}

    @pytest.mark.parametrize("varied", [{"colour": [1]}, {"tp": [3]}])
    def test_what_cannot_be_searched(self, varied: dict[str, list[int]]) -> None:
        with pytest.raises(UserError):
            ranked(spec_of(), varied)


class TestSearch:
    @settings(max_examples=30, deadline=None)
    @given(seed=st.integers(0, 10**6), scatter=st.floats(0.0, 0.1), failures=st.integers(0, 3))
    def test_it_ends_inside_its_budget(
        self, candidates: list[Candidate], seed: int, scatter: float, failures: int
    ) -> None:
        search = search_of(candidates)
        random = np.random.default_rng(seed)
        truth: list[float | None] = [
            each.prediction.median * 1.2 * float(np.exp(random.normal(0, scatter))) for each in candidates
        ]
        for index in random.permutation(len(truth))[:failures]:
            truth[index] = None
        trials = run(search, truth)
        jobs_s = [trial.seconds for trial in trials]
        assert sum(jobs_s[:-1]) <= 1.35 * search.budget_s  # steps take 1.2 times what was planned
        chosen = search.best(trials)
        assert chosen is None or truth[chosen] == min(truth[trial.layout] or np.inf for trial in trials)

    def test_where_predictions_hold_few_jobs_are_enough(self, candidates: list[Candidate]) -> None:
        search = replace(search_of(candidates), share=1.0)
        truth = [1.1 * each.prediction.median for each in candidates]
        trials = run(search, truth)
        assert search.best(trials) == 0
        assert len({trial.layout for trial in trials}) < len(candidates) / 2

    def test_a_measurement_corrects_what_is_alike(self, candidates: list[Candidate]) -> None:
        search = search_of(candidates)
        before, unsure = search.expected([])
        after, surer = search.expected([Trial(0, 8, 60.0, 2 * search.predicted_s[0])])
        assert after[0] == pytest.approx(2 * before[0], rel=0.01)
        assert (after[1:] > 1.8 * before[1:]).all()
        assert surer[0] < 0.2 * unsure[0]

    def test_an_untried_layout_that_would_not_help_is_not_tried(self, candidates: list[Candidate]) -> None:
        search = search_of(candidates)
        clear = replace(search, predicted_s=[1.0, *(2.0 for _ in candidates[1:])], share=1.0)
        trials = [Trial(layout, clear.steps, 60.0, min(layout + 1.0, 2.0)) for layout in range(3)]
        assert clear.next(trials) == []
        assert clear.next(trials[:2]), "two measured layouts say too little"

    def test_close_ones_are_measured_again_over_more_steps(self, candidates: list[Candidate]) -> None:
        search = replace(search_of(candidates), predicted_s=[1.0, 1.0, *(2.0 for _ in candidates[2:])], share=1.0)
        times = (1.0, 1.001, 2.0)
        trials = [Trial(layout, search.steps, 60.0, step_s) for layout, step_s in enumerate(times)]
        assert search.next(trials) == [Job(0, 2 * search.steps), Job(1, 2 * search.steps)]


def search_of(candidates: Sequence[Candidate]) -> Search:
    loads = [each.prediction.load for each in candidates]
    return Search(loads, [each.prediction.median for each in candidates], start_s=START_S)


def test_measured_layouts_of_one_node() -> None:
    """A quarter of the device time finds a layout near the best of all (VIA-Research/vTrain's A100 nodes)."""
    points: dict[tuple[str, ...], list[tuple[Workload, float]]] = {}
    with SINGLE_NODE.open(newline="") as file:
        for row in csv.DictReader(file):
            key = tuple(row[name] for name in ("num_gpus", "gbs", "hidden", "layers"))
            points.setdefault(key, []).append((workload_of_row(row), float(row["step_time_s"])))
    losses, shares = [], []
    for pairs in points.values():
        if len(pairs) < 12:
            continue
        pairs.sort(key=lambda pair: predict(pair[0]).median)
        truth = [step_s for _, step_s in pairs]
        search = Search([load for load, _ in pairs], [predict(load).median for load, _ in pairs], start_s=START_S)
        trials = run(search, truth)
        chosen = search.best(trials)
        assert chosen is not None
        losses.append(truth[chosen] / min(truth) - 1)
        shares.append(sum(each.seconds for each in trials) / sum(START_S + search.steps * each for each in truth))
    assert len(losses) > 5
    assert median(losses) <= 0.02
    assert np.quantile(losses, 0.9) <= 0.1
    assert median(shares) <= 0.3


def test_a_machine_of_unknown_speed_is_searched_too() -> None:
    tuning = api.plan_tuning(api.Request("tiny-llama", num_gpus=2, precision="fp32"), {"mbs": [1, 2]}, 8)
    assert tuning.stands_in
    # A thousand times as slow as predicted: the first measurements correct the others as a whole.
    trials: list[Trial] = []
    while jobs := tuning.search.next(trials):
        times = [1000 * tuning.search.predicted_s[job.layout] for job in jobs]
        trials += [Trial(job.layout, job.steps, 60.0, step_s) for job, step_s in zip(jobs, times, strict=True)]
    assert tuning.search.best(trials) == 0
    medians, _ = tuning.search.expected(trials)
    np.testing.assert_allclose(medians, 1000 * np.array(tuning.search.predicted_s), rtol=0.1)
