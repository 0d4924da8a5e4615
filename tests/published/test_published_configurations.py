"""Each point that has a publisher renders into the publisher's own values; what differs is listed with its reason.

``differences.csv`` has a row for each argument that differs, with its kind; ``kinds.csv`` says why a kind stays. Both
are checked here, and ``python tests/published/test_published_configurations.py`` writes the former.
"""

import csv
import sys
from collections import Counter
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from comparison import Difference, Match, differences, extract, matches, recipes, rendered  # noqa: E402

LISTED = HERE / "differences.csv"
FIELDS = (*Difference._fields, "kind")
OTHERS = (
    *(("parallelism that 128 allow", "scaled"), ("25.", "printed"), ("26.06;", "newer_release")),
    *(("AutoModel", "automodel"), ("FSDP cuts", "rack"), ("GiB do not fit", "memory")),
)
"""Words of a group's origin -> the kind of its differences."""
BY_KEY = {
    ("kimi-k2", "optimizer.optimizer"): "muon",
    ("kimi-k2", "ddp.use_distributed_optimizer"): "muon",
    ("kimi-k2", "ddp.overlap_param_gather"): "muon",
    ("deepseek-v3", "ddp.overlap_param_gather"): "refused",
    ("deepseek-v3", "optimizer.overlap_param_gather_with_optimizer_step"): "refused",
    ("nemotron-3.5-lightning", "model.moe_hybridep_num_sms"): "unstated",
}


def rows(name: str) -> list[dict[str, str]]:
    with (HERE / name).open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def kind(match: Match, difference: Difference) -> str:
    """Why an argument differs; empty where nothing says why."""
    origin = match.point.group.source or match.point.group.derived or ""
    if found := BY_KEY.get((difference.recipe, difference.key)):
        return found
    if difference.recipe == "llama3-70b-lora":
        return "adapters"
    return next((found for words, found in OTHERS if words in origin), "")


@pytest.fixture(scope="module")
def listed() -> dict[str, Counter[tuple[str, ...]]]:
    found: dict[str, Counter[tuple[str, ...]]] = {}
    for row in rows(LISTED.name):
        found.setdefault(row["recipe"], Counter())[tuple(row[name] for name in Difference._fields)] += 1
    return found


@pytest.mark.parametrize("recipe", recipes())
def test_only_what_is_listed_differs(recipe: str, listed: dict[str, Counter[tuple[str, ...]]]) -> None:
    found = [each for match in matches(recipe) if isinstance(match, Match) for each in match.differences]
    assert Counter(map(tuple, found)) == listed.get(recipe, Counter())


def test_every_difference_has_a_reason() -> None:
    reasons = {row["kind"]: row["reason"] for row in rows("kinds.csv")}
    used = {row["kind"] for row in rows(LISTED.name)}
    assert used == {*reasons}
    assert all(reasons.values())


def test_most_points_have_a_publisher() -> None:
    found = [match for recipe in recipes() for match in matches(recipe)]
    published = [match for match in found if isinstance(match, Match)]
    assert len(published) >= 350
    assert sum(not match.differences for match in published) >= 290


def test_a_wrong_value_is_found() -> None:
    """A point of DeepSeek-V3 that sends tokens otherwise differs in the dispatcher."""
    match = next(each for each in matches("deepseek-v3") if isinstance(each, Match) and not each.differences)
    training = match.spec.training.model_copy(update={"moe_dispatcher": "alltoall"})
    wrong = match.spec.model_copy(update={"training": training})
    found = differences("deepseek-v3", match.point, wrong, match.row, rendered(wrong))
    assert "model.moe_token_dispatcher_type" in {each.key for each in found}


def test_the_extract_names_its_sources() -> None:
    for row in extract():
        assert row["path"].endswith(".py")
        assert len(row["commit"]) == 10


def main() -> None:
    found = []
    for recipe in recipes():
        for match in (each for each in matches(recipe) if isinstance(each, Match)):
            found += [(*each, kind(match, each)) for each in match.differences]
    with LISTED.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(FIELDS)
        writer.writerows(found)
    sys.stdout.write(f"{Counter(row[-1] for row in found)}\n")


if __name__ == "__main__":
    main()
