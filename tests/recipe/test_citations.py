"""What recipes name from elsewhere stays what it is: images have a tag, citations a commit and the right page."""

import re
from collections import defaultdict
from collections.abc import Iterator

import pytest

from benchrun import paths
from benchrun.judge.references import load_references

RECIPES = sorted(paths.RECIPES.rglob("*.yaml"))
IMAGE = re.compile(r"\bimage:\s*[\"']?([\w./:@-]+)")
PINNED = re.compile(r"@sha256:[0-9a-f]{64}$|:(?!latest\b|main\b|nightly\b)[\w.-]*\d[\w.-]*$")
COMMIT = re.compile(r"([\w.-]+/[\w.-]+) [^\s@]*\s?@ ([0-9a-f]{7,40})\b")
PAGE = re.compile(r"Megatron-Bridge docs/(performance-summary[-\w]*)\.md @ 5796c06a1c[ (:]*([^)\n]*)")
HAS = {
    "performance-summary": {"26.08"},
    "performance-summary-archive": {
        *("25.09", "25.11", "26.02", "26.02.01", "26.04", "26.04.01", "26.06", "26.06.01"),
    },
}
"""Page of Megatron-Bridge at this commit -> containers that it has a chapter for."""
RELEASE = re.compile(r"\b\d\d\.\d\d(?:\.\d\d)?\b")
ALIKE = 6
"""Digits of two commits of one repository that no chance makes equal."""


def images() -> Iterator[tuple[str, str]]:
    """Each image of the recipes, with the name of its file."""
    for path in RECIPES:
        for line in path.read_text(encoding="utf-8").splitlines():
            if found := IMAGE.search(line.partition(" #")[0]):
                yield path.name, found[1]


def test_every_image_of_a_recipe_has_a_fixed_tag_or_a_digest() -> None:
    found = list(images())
    assert len(found) > 50
    assert [each for each in found if not PINNED.search(each[1])] == []


@pytest.mark.parametrize(
    ("image", "is_pinned"),
    [
        ("nvcr.io/nvidia/nemo:25.07.01", True),
        ("vllm/vllm-openai:v0.32.0", True),
        (f"nvcr.io/nvidia/nemo@sha256:{64 * 'a'}", True),
        ("huggingface/transformers-pytorch-gpu:latest", False),
        ("nvcr.io/nvidia/nemo", False),
        ("localhost:5000/nemo", False),
        ("nvcr.io/nvidia/nemo:main", False),
    ],
)
def test_what_is_pinned(image: str, is_pinned: bool) -> None:
    assert bool(PINNED.search(image)) is is_pinned


def test_commits_that_begin_alike_are_one() -> None:
    """A digit that was typed wrongly names a commit that does not exist."""
    texts = [path.read_text(encoding="utf-8") for path in RECIPES]
    texts += [entry.source.where for entry in load_references()]
    commits = defaultdict(set)
    for repository, commit in {pair for text in texts for pair in COMMIT.findall(text)}:
        commits[repository, commit[:ALIKE]].add(commit)
    assert len(commits) > 20
    for alike in commits.values():
        longest = max(alike, key=len)
        assert all(longest.startswith(commit) for commit in alike), alike


def test_a_page_is_cited_for_releases_that_it_has() -> None:
    """The newest release stands on a page of its own; at the next one its rows move to the archive."""
    stated = [(path.name, *found) for path in RECIPES for found in PAGE.findall(path.read_text(encoding="utf-8"))]
    for entry in load_references():
        pages = [page for page, _ in PAGE.findall(entry.source.where)]
        stated += [(entry.id, page, entry.key.image or "") for page in pages]
    assert len(stated) > 250
    for where, page, words in stated:
        assert set(RELEASE.findall(words)) <= HAS[page], where
