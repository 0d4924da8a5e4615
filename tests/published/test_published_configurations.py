"""Each point that has a publisher renders into the publisher's own values; what differs is listed with its reason.

``differences.csv`` has a row for each argument that differs, with its kind; ``kinds.csv`` says why a kind stays and
where one sees it. ``CHECKS`` looks there for each difference.
``python tests/published/test_published_configurations.py`` writes ``differences.csv`` and prints the counts.
"""

import csv
import fnmatch
import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchrun import paths
from benchrun.frameworks.registry import FRAMEWORKS, framework
from benchrun.hardware import gpu
from benchrun.judge.references import Reference, load_references
from benchrun.memory.estimate import estimate
from benchrun.recipes import catalogue
from benchrun.runspec.training import Recompute

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from comparison import (  # noqa: E402
    FRAMEWORK,
    LAYOUT,
    ORDER,
    Difference,
    Match,
    captured,
    differences,
    extract,
    matches,
    named,
    ran,
    recipes,
    rendered,
)

LISTED = HERE / "differences.csv"
FIELDS = (*Difference._fields, "kind")
FOLLOWS = (
    *("model.seq_length", "model.sequence_parallel", "env.NUM_OF_HYBRID_EP_RANKS_PER_NVLINK_DOMAIN"),
    *("model.account_for_embedding_in_pipeline_split", "model.account_for_loss_in_pipeline_split"),
)
"""Arguments that follow from a layout."""
AWARE_OPTIMIZER = "optimizer.use_precision_aware_optimizer"
FIELDS_OF = {
    **dict.fromkeys(("moe_token_dispatcher_type", "moe_flex_dispatcher_backend"), "moe_dispatcher"),
    **dict.fromkeys(("cuda_graph_impl", "cuda_graph_scope"), "cuda_graphs"),
    "overlap_moe_expert_parallel_comm": "moe_overlap",
}
"""Argument -> the field of ``training`` that sets it."""


def rows(name: str) -> list[dict[str, str]]:
    with (HERE / name).open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def references(match: Match) -> Iterator[Reference]:
    """The published numbers of a point's GPUs, precision and batch."""
    spec = match.spec
    for reference in load_references():
        key = reference.key
        theirs = (key.recipe, key.gpu, key.precision, key.num_gpus, key.gbs)
        if theirs == (spec.recipe, spec.gpu, spec.precision, spec.num_gpus, spec.gbs):
            yield reference


def printed(match: Match, difference: Difference) -> bool:
    """Whether a page of the first releases prints this layout with a number."""
    spec = match.spec
    ours = (spec.seq_length, spec.mbs, spec.layout.tp, spec.layout.pp, spec.layout.vp, spec.layout.ep)
    for reference in references(match):
        key = reference.key
        theirs = (key.seq_length, key.mbs, key.tp, key.pp, key.vp, key.ep)
        if theirs == ours and (key.image or "").endswith((":25.04", ":25.07", ":25.09", ":25.11")):
            return difference.key in (*LAYOUT, *FOLLOWS)
    return False


def automodel(match: Match, difference: Difference) -> bool:
    """Whether the point is one of NeMo AutoModel, which no framework here launches."""
    frameworks = {reference.key.framework for reference in references(match)}
    of_bridge = match.spec.framework == FRAMEWORK
    return of_bridge and frameworks == {"automodel"} and "automodel" not in FRAMEWORKS


def scaled(match: Match, difference: Difference) -> bool:
    """Whether the published expert parallelism is larger than a stage of these GPUs."""
    experts = int(match.row["model.expert_model_parallel_size"] or 1)
    key = difference.key.rpartition(".")[2]
    in_layout = key in ("expert_model_parallel_size", "NUM_OF_HYBRID_EP_RANKS_PER_NVLINK_DOMAIN")
    return in_layout and experts > match.spec.num_gpus // match.spec.layout.pp


def memory(match: Match, difference: Difference) -> bool:
    """Whether the point would not fit without what it computes again, and has no number."""
    training = match.spec.training.model_copy(update={"recompute": Recompute()})
    size = estimate(match.spec.model_copy(update={"training": training})).total
    card = gpu(match.spec.gpu)
    assert card
    return "recompute" in difference.key and size > card.memory_gib and not any(references(match))


def batch(match: Match, difference: Difference) -> bool:
    """Whether another team published a number with this batch; Together AI with 32 queues and no graphs."""
    keys = ["train.global_batch_size"]
    if (match.point.group.source or "").startswith("together"):
        keys += ["model.cuda_graph_impl", "model.use_te_rng_tracker", "env.CUDA_DEVICE_MAX_CONNECTIONS"]
    return difference.key in keys and any(references(match))


def older(match: Match, difference: Difference) -> bool:
    """Whether no BF16 number of the point is of NeMo 25.07, whose scripts set an optimizer that knows its precision."""
    numbers = [reference.key.image or "" for reference in references(match)]
    new = [image for image in numbers if "25.07" <= image.rpartition(":")[2] < "3"]  # others are hashes
    own = match.spec.framework == "nemo2"
    of_table = match.row["framework"] == "nemo2" and (not own or match.row["path"].endswith(".csv"))
    return of_table and difference.key == AWARE_OPTIMIZER and not new and (bool(numbers) or not own)


def refused(match: Match, difference: Difference) -> bool:
    """Whether the point's framework has no option for the published value, or refuses it, or has not all it needs."""
    spec, name = match.spec, difference.key.rpartition(".")[2]
    field = FIELDS_OF.get(name)
    if field is None or field not in framework(spec.framework).options:
        return field is not None
    value = match.row["model.moe_flex_dispatcher_backend"]
    if field == "cuda_graphs":
        value = {"transformer_engine": "layers"}.get(match.row["model.cuda_graph_impl"], "full_iteration")
    wanted = spec.model_copy(update={"training": spec.training.model_copy(update={field: value})})
    needs = "NVLINK_DOMAIN_SIZE" if value == "hybridep" else ""
    lacks = bool(needs) and needs not in framework(spec.framework).environment(wanted)
    return lacks or any(framework(spec.framework).refusals(wanted))


def scaling(match: Match, difference: Difference) -> bool:
    """Whether the page is of another framework, and no configuration of this one scales as that does."""
    own = {row["fp8_recipe"] for row in extract() if row["framework"] == match.spec.framework}
    of_other = match.row["framework"] != match.spec.framework
    return of_other and difference.key.endswith(".fp8_recipe") and difference.published not in own


def gate(match: Match, difference: Difference) -> bool:
    """Whether the publisher's Grok-1 has Mixtral's gate, whose product megatron-core computes in one kernel."""
    return match.spec.model.activation == "geglu" and difference.key == "model.bias_activation_fusion"


def vocabulary(match: Match, difference: Difference) -> bool:
    """Whether Megatron-Bridge's configuration names no vocabulary, and trains the entries of its NullTokenizer."""
    return (match.row["framework"], difference.key, difference.published) == (FRAMEWORK, "model.vocab_size", "32000")


def image(match: Match, difference: Difference) -> bool:
    """Whether the image's release always sets a variable for this dispatcher, and the configuration's never."""
    backend = "model.moe_flex_dispatcher_backend"
    alike = [row for row in extract() if row[backend] == match.row[backend] and row["framework"] == FRAMEWORK]
    newer = [row for row in alike if ORDER.get(row["release"], "-") in (match.spec.image or "")]
    known = {row[difference.key] for row in alike if row["release"] == match.row["release"]}
    return known == {""} and all(row.get(difference.key) for row in newer)


CHECKS = {
    **{"printed": printed, "automodel": automodel, "scaled": scaled, "memory": memory, "batch": batch},
    **{"older": older, "refused": refused, "scaling": scaling, "image": image, "gate": gate, "vocabulary": vocabulary},
}
"""Kind of ``kinds.csv`` -> whether its reason holds for a difference."""


def kind(match: Match, difference: Difference) -> str:
    """Why an argument differs; empty where no reason holds."""
    for name, holds in CHECKS.items():
        if holds(match, difference):
            return name
    return ""


@pytest.fixture(scope="module")
def listed() -> dict[str, Counter[tuple[str, ...]]]:
    found: dict[str, Counter[tuple[str, ...]]] = {}
    for row in rows(LISTED.name):
        found.setdefault(row["recipe"], Counter())[tuple(row[name] for name in FIELDS)] += 1
    return found


@pytest.mark.parametrize("recipe", recipes())
def test_only_what_is_listed_differs(recipe: str, listed: dict[str, Counter[tuple[str, ...]]]) -> None:
    found = []
    for match in matches(recipe):
        if isinstance(match, Match):
            found += [(*each, kind(match, each)) for each in match.differences]
            refuses = any(kind(match, each) == "refused" for each in match.differences)
            assert not refuses or "without its" in (match.point.group.source or "")
    assert [row for row in found if not row[-1]] == []
    assert Counter(found) == listed.get(recipe, Counter())


def test_every_reason_is_used_and_says_where() -> None:
    reasons = rows("kinds.csv")
    assert {row["kind"] for row in rows(LISTED.name)} == {row["kind"] for row in reasons} == {*CHECKS}
    assert all(row["reason"] and row["where"] for row in reasons)


def test_every_point_that_names_a_source_is_compared_with_it() -> None:
    """Those of four sources are not: scripts and configurations that state no number here, and teams of MLPerf."""
    found = [match for recipe in recipes() for match in matches(recipe)]
    published = [match for match in found if isinstance(match, Match)]
    assert len(published) >= 1030
    assert sum(not match.differences for match in published) >= 920
    sourced = [match for match in published if match.point.group.source and match.row["framework"] == FRAMEWORK]
    assert [match for match in sourced if not named(match.row, match.point)] == []
    sources = {match.group.source for match in found if not isinstance(match, Match)} - {None}
    assert {(source or "").split()[0] for source in sources} == {
        *("NVIDIA/NeMo-Framework-Launcher", "MLPerf", "NVIDIA", "togethercomputer/together-dgxc-benchmarking")
    }


@pytest.mark.parametrize("recipe", ["gpt3-175b", "llama3-8b-lora", "mixtral-8x7b"])
def test_what_nemo2s_driver_states_is_compared_or_has_a_reason(recipe: str) -> None:
    facts = json.loads((HERE / "dimensions.json").read_text(encoding="utf-8"))["nemo"]
    known = {f"{part}.{name}" for part, names in facts["arguments"].items() for name in names}
    reasons = " ".join(facts["not_compared"].values()).split()
    found = [each for each in matches(recipe) if isinstance(each, Match) and each.spec.framework == "nemo2"]
    stated = {key for match in found for key in rendered(match.spec) if not key.startswith("env.")}
    assert stated
    assert {key for key in stated - known if not any(fnmatch.fnmatch(key, each) for each in reasons)} == set()


def test_a_source_names_a_variant_that_the_publisher_takes_only_on_request() -> None:
    second = {_workload(row) for row in extract() if row["variant"] == "v2"}
    for match in (each for recipe in recipes() for each in matches(recipe) if isinstance(each, Match)):
        source = match.point.group.source or ""
        asked = match.row["variant"] == "v1" and _workload(match.row) in second
        if asked and f"{match.row['commit']} (" in source:
            assert "variant v1" in source


def _workload(row: dict[str, str]) -> tuple[str, ...]:
    return tuple(row[name] for name in ("commit", "recipe", "task", "gpu", "precision", "fp8_recipe"))


@pytest.mark.parametrize("recipe", sorted(paths.shipped(paths.RECIPES)))
def test_a_point_names_its_publisher_only_for_a_framework_that_the_publisher_ran(recipe: str) -> None:
    for point in catalogue.points(catalogue.recipe_file(recipe).recipe):
        if point.group.source and not point.derived:
            assert point.framework in ran(point.group.source), point
        for name in point.group.ran or ():
            assert name in ran(point.group.source or ""), point


def test_a_wrong_value_is_found() -> None:
    """A point of DeepSeek-V3 that sends tokens otherwise differs in the dispatcher."""
    match = next(each for each in matches("deepseek-v3") if isinstance(each, Match) and not each.differences)
    training = match.spec.training.model_copy(update={"moe_dispatcher": "alltoall"})
    wrong = match.spec.model_copy(update={"training": training})
    found = differences("deepseek-v3", match.point, wrong, match.row, rendered(wrong))
    assert "model.moe_token_dispatcher_type" in {each.key for each in found}


@pytest.mark.parametrize(
    ("impl", "scope", "kind", "modules"),
    [
        ("none", "full_iteration", "none", "-"),
        ("local", "full_iteration", "full_iteration", "-"),
        ("transformer_engine", "mlp attn", "transformer_engine", "mlp attn"),
    ],
)
def test_a_scope_counts_only_where_its_kind_of_graph_reads_it(impl: str, scope: str, kind: str, modules: str) -> None:
    found = captured({"model.cuda_graph_impl": impl, "model.cuda_graph_scope": scope})
    assert list(found.values()) == [kind, modules]


def test_the_extract_names_its_sources() -> None:
    for row in extract():
        assert row["path"].endswith((".py", ".csv", ".sh"))
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
    counts = Counter(row[-1] or "unexplained" for row in found)
    sys.stdout.write(f"{len(found)} differences, {counts['unexplained']} unexplained: {dict(counts)}\n")


if __name__ == "__main__":
    main()
