"""Study file -> points: every combination once, in order, and contradictions named with file and line."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchrun import api, paths
from benchrun.capabilities.studies.resolved import resolved_study
from benchrun.errors import UserError
from benchrun.recipes.resolve import resolve
from benchrun.recipes.select import Request
from benchrun.recipes.study import Expanded, expand

KEYS = ("mbs", "gbs", "training.seed", "training.lr", "seq_length")
RUN = {"recipe": "tiny-llama", "precision": "fp32", "num_gpus": 1}


def expanded(folder: Path, request: dict[str, Any] | None = None, **study: Any) -> Expanded:
    """The points of a study with these keys; JSON is YAML."""
    path = folder / "mine.yaml"
    path.write_text(json.dumps({"description": "mine", "runs": [RUN], **study}))
    return expand(Request(str(path), **request or {}))


def test_what_all_points_share_is_computed_once(tmp_path: Path) -> None:
    """A study may have thousands of points."""
    study = expanded(tmp_path, matrix={"mbs": [1, 2], "gbs": [8, 16]}, baseline={"mbs": 2})
    planned = resolved_study(study)
    assert study.columns is study.columns == ("mbs", "gbs")
    assert planned.slots is planned.slots
    assert [study.points.index(study.baseline(point) or point) for point in study.points] == [2, 3, 2, 3]
    assert [planned.number(each.key) for each in planned.points] == [1, 2, 3, 4]


VALUES = st.lists(st.integers(1, 30), min_size=1, max_size=4, unique=True)


@st.composite
def factors(draw: st.DrawFn) -> dict[str, Any]:
    """A matrix, groups that vary together, and exclusions of some of their values."""
    keys = draw(st.permutations(KEYS))
    crossed, together = draw(st.integers(0, 2)), draw(st.integers(0, 2))
    matrix = {key: draw(VALUES) for key in keys[:crossed]}
    group: dict[str, list[int]] = {}
    if together:
        size = draw(st.integers(1, 3))
        rows = st.lists(st.integers(1, 30), min_size=size, max_size=size, unique=True)
        group = {key: draw(rows) for key in keys[crossed : crossed + together]}
    everything = {**matrix, **group}
    excluded = []
    if everything and draw(st.booleans()):
        chosen = draw(st.lists(st.sampled_from(sorted(everything)), min_size=1, max_size=2, unique=True))
        excluded = [{key: draw(st.sampled_from(everything[key])) for key in chosen}]
    return {"matrix": matrix, "zip": [group] if group else [], "exclude": excluded}


def by_hand(study: dict[str, Any]) -> list[dict[str, int]]:
    """The combinations in order, written without the code under test."""
    points: list[dict[str, int]] = [{}]
    for key, values in study["matrix"].items():
        points = [{**point, key: value} for point in points for value in values]
    for group in study["zip"]:
        rows = range(len(next(iter(group.values()))))
        points = [{**point, **{key: group[key][row] for key in group}} for point in points for row in rows]
    return [p for p in points if not any(all(p[k] == v for k, v in cut.items()) for cut in study["exclude"])]


@settings(max_examples=150, deadline=None)
@given(study=factors())
def test_points_are_all_combinations_without_the_excluded_ones(
    tmp_path_factory: pytest.TempPathFactory, study: dict[str, Any]
) -> None:
    folder = tmp_path_factory.mktemp("study")
    if not (expected := by_hand(study)):
        with pytest.raises(UserError, match=r"mine\.yaml:1: exclude leaves no point"):
            expanded(folder, **study)
        return
    points = expanded(folder, **study).points
    assert [{key: value for key, value in point.settings.items() if key not in RUN} for point in points] == expected
    assert len({json.dumps(point.settings, sort_keys=True) for point in points}) == len(points)


@settings(max_examples=80, deadline=None)
@given(study=factors())
def test_the_columns_are_what_differs(tmp_path_factory: pytest.TempPathFactory, study: dict[str, Any]) -> None:
    expected = by_hand(study)
    if not expected:
        return
    found = expanded(tmp_path_factory.mktemp("study"), **study)
    assert set(found.columns) == {key for key in expected[0] if len({point[key] for point in expected}) > 1}
    assert found.baseline(found.points[-1]) is found.points[0]


def test_each_run_is_varied_and_has_a_baseline_of_its_own(tmp_path: Path) -> None:
    other = {**RUN, "recipe": "tiny-gpt3"}
    found = expanded(tmp_path, runs=[RUN, other], matrix={"mbs": [1, 2]})
    assert [(point.settings["recipe"], point.settings["mbs"]) for point in found.points] == [
        *(("tiny-llama", 1), ("tiny-llama", 2)),
        *(("tiny-gpt3", 1), ("tiny-gpt3", 2)),
    ]
    assert found.baseline(found.points[3]) is found.points[2]
    assert found.columns == ("recipe", "mbs")


def test_a_baseline_agrees_in_the_other_factors(tmp_path: Path) -> None:
    study = {"matrix": {"mbs": [1, 2], "precision": ["fp32", "bf16"]}, "baseline": {"precision": "bf16"}}
    run = {key: value for key, value in RUN.items() if key != "precision"}
    found = expanded(tmp_path, runs=[run], **study)
    pairs = [(point.settings["mbs"], (found.baseline(point) or point).settings) for point in found.points]
    assert [(mbs, baseline["mbs"], baseline["precision"]) for mbs, baseline in pairs] == [
        *((1, 1, "bf16"), (1, 1, "bf16")),
        *((2, 2, "bf16"), (2, 2, "bf16")),
    ]


def test_a_baseline_of_a_group_takes_its_whole_row(tmp_path: Path) -> None:
    study = {"zip": [{"num_gpus": [1, 2], "gbs": [8, 16]}], "baseline": {"num_gpus": 2}}
    run = {key: value for key, value in RUN.items() if key != "num_gpus"}
    found = expanded(tmp_path, runs=[run], **study)
    assert found.baseline(found.points[0]) is found.points[1]


def test_an_excluded_baseline_is_none(tmp_path: Path) -> None:
    study = {"matrix": {"mbs": [1, 2], "gbs": [8, 16]}, "exclude": [{"mbs": 1, "gbs": 8}], "baseline": {"mbs": 1}}
    found = expanded(tmp_path, **study)
    assert [found.baseline(point) is None for point in found.points] == [False, True, False]


HEAD = "description: mine\nruns:\n  - {recipe: tiny-llama, precision: fp32, num_gpus: 1, set: {gbs: 8}}\n"


@pytest.mark.parametrize(
    ("text", "request_of", "line", "says"),
    [
        ("matrix: {mbs: []}", {}, 4, "matrix.mbs"),
        ("matrix:\n  mbs: [1, 2]\n  gbs: [8]", {}, 3, "this run states 'gbs', which is a factor"),
        ("matrix:\n  mbs: [1, 2, 1]", {}, 5, "has the value 1 twice"),
        ("matrix:\n  mbs: [1]\nzip:\n  - mbs: [1]", {}, 5, "factor 'mbs' is given twice"),
        ("zip:\n  - {mbs: [1, 2], seq_length: [64]}", {}, 5, "mbs has 2, seq_length has 1"),
        ("matrix:\n  mbs: [1]\nexclude:\n  - {mbs: 2}", {}, 7, "exclude: mbs is never 2"),
        ("matrix:\n  mbs: [1]\nexclude:\n  - {msb: 1}", {}, 7, "names 'msb', which is no factor"),
        ("matrix:\n  mbs: [1]\nbaseline: {lr: 1}", {}, 6, "baseline names 'lr', which is no factor"),
        ("matrix:\n  framework:\n    - megatron-core\n    - megatron", {}, 7, "'framework' is 'megatron'"),
        ("matrix:\n  mbs: [1, 2]", {"overrides": ("mbs=4",)}, 5, "--set mbs: it is a factor"),
        ("matrix:\n  mbs: [1, 2]\nexclude:\n  - {mbs: 1}\nbaseline: {mbs: 1}", {}, 8, "exclude removes every point"),
        ("zip:\n  - {mbs: [1, 2], seq_length: [64, 128]}\nbaseline: {mbs: 1, seq_length: 128}", {}, 6, "no point has"),
        ("matrix:\n  training.ceilings: [yes, no, on, off]", {}, 5, "has the value on twice: yes means the same"),
        ("matrix:\n  training.ceilings: [true, false, No]", {}, 5, "has the value No twice: false means the same"),
        (f"matrix:\n  mbs: {[*range(1, 102)]}\n  training.seed: {[*range(100)]}", {}, 4, "the study has 10,100 points"),
        ("repeats: 0", {}, 4, "repeats"),
        ("matrixx: {mbs: [1]}", {}, 4, "unknown key 'matrixx'"),
    ],
)
def test_a_contradiction_is_named_with_its_line(
    tmp_path: Path, text: str, request_of: dict[str, Any], line: int, says: str
) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(f"{HEAD}{text}\n")
    with pytest.raises(UserError) as error:
        expand(Request(str(path), **request_of))
    assert error.value.where == f"{path}:{line}"
    assert says in error.value.message


def test_an_option_that_is_a_factor_is_refused(tmp_path: Path) -> None:
    run = {key: value for key, value in RUN.items() if key != "num_gpus"}
    with pytest.raises(UserError, match="--num-gpus is a factor of this study"):
        expanded(tmp_path, {"num_gpus": 2}, runs=[run], matrix={"num_gpus": [1, 2]})


def test_a_run_without_a_recipe_is_refused_unless_it_is_a_factor(tmp_path: Path) -> None:
    run = {key: value for key, value in RUN.items() if key != "recipe"}
    with pytest.raises(UserError, match="a run needs a recipe"):
        expanded(tmp_path, runs=[run])
    found = expanded(tmp_path, runs=[run], matrix={"recipe": ["tiny-llama", "tiny-gpt3"]})
    assert [resolve(point.request).recipe for point in found.points] == ["tiny-llama", "tiny-gpt3"]


def test_illegal_points_are_listed_and_the_others_keep_their_key(tmp_path: Path) -> None:
    planned = resolved_study(expanded(tmp_path, matrix={"mbs": [2, 3, 4]}))
    assert [each.spec is None for each in planned.points] == [False, True, False]
    assert "gbs (8) must be a multiple of mbs * dp" in planned.points[1].refused
    longer = resolved_study(expanded(tmp_path, matrix={"mbs": [1, 4, 2]}))
    keys = {each.point.settings["mbs"]: each.key for each in planned.legal}
    assert {each.point.settings["mbs"]: each.key for each in longer.legal}.items() >= keys.items()
    assert len(set(keys.values())) == 2


def test_a_study_without_a_legal_point_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no point is legal; the first: .*gbs"):
        resolved_study(expanded(tmp_path, matrix={"mbs": [3, 5]}))


def test_a_run_that_is_listed_twice_is_launched_once_by_a_study_and_twice_by_launch(tmp_path: Path) -> None:
    planned = resolved_study(expanded(tmp_path, runs=[RUN, RUN]))
    assert [each.refused for each in planned.points] == ["", "the same as point 1"]
    assert len(api.resolve(Request(str(tmp_path / "mine.yaml")))) == 2


def test_launch_takes_a_study_with_its_repeats(tmp_path: Path) -> None:
    expanded(tmp_path, matrix={"mbs": [1, 2]}, repeats=3)
    specs = api.resolve(Request(str(tmp_path / "mine.yaml")))
    assert [spec.mbs for spec in specs] == [1, 1, 1, 2, 2, 2]  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", paths.shipped(paths.STUDIES))
@pytest.mark.parametrize("gpu", ["H100", "H200", "GH200"])
def test_every_shipped_study_is_legal_on_every_gpu(name: str, gpu: str) -> None:
    only = {"tiny": "CPU", "tiny-concurrency": "CPU", "deepseek-r1-concurrency": "H200"}
    planned = resolved_study(expand(Request(name, gpu=only.get(name, gpu))))
    refused = [each.refused for each in planned.points if each.refused]
    assert len(refused) == (2 if name == "tiny" else 0), refused


def test_ten_thousand_points_are_not_too_many(tmp_path: Path) -> None:
    found = expanded(tmp_path, matrix={"mbs": [*range(1, 101)], "training.seed": [*range(100)]})
    assert len(found.points) == 10_000


def test_a_matrix_of_billions_is_refused_before_it_is_made(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"the study has 10,000,000,000 points \(1 x 100 x 100 x 100 x 100 x 100\)"):
        expanded(tmp_path, matrix={key: [*range(1, 101)] for key in KEYS})
