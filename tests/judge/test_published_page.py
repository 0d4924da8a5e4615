"""docs/published.md says what the data says."""

import re
from pathlib import Path

from benchrun.judge.references import load_references
from docs.pages.published import page

PAGE = Path(__file__).parents[2] / "docs" / "published.md"
ENTRIES = load_references()


def section(recipe: str) -> str:
    return page(ENTRIES).split(f"\n## {recipe}\n")[1].split("\n## ")[0]


def test_the_page_is_in_step_with_the_data() -> None:
    assert PAGE.read_text() == page(ENTRIES), "python docs/generate.py"


def test_every_workload_with_a_published_speed_has_a_section() -> None:
    published = {entry.key.recipe for entry in ENTRIES if entry.metric != "final_loss"}
    titles = {line.removeprefix("## ") for line in PAGE.read_text().splitlines() if line.startswith("## ")}
    assert titles == published


def test_the_best_of_several_releases_is_shown_with_its_scale_and_source() -> None:
    (row,) = [line for line in section("llama3.1-8b").splitlines() if line.startswith("| H100 | bf16 | 8192 |")]
    assert "8, 16, 32, 64, 128" in row
    assert "12.27 s on 8, GBS 128 | 10,682 |" in row
    assert "v25.04 to v25.04.02" in row


def test_neither_proxies_nor_misprints_are_the_best() -> None:
    (grok,) = [line for line in section("grok1-314b").splitlines() if line.startswith("| H100 | bf16 | 8192 |")]
    assert "512, 1024, 2048; with fewer layers 64, 128, 256" in grok
    assert "15.933 s on 512" in grok
    (gpt,) = [line for line in section("gpt3-5b").splitlines() if line.startswith("| H100 | fp8 |")]
    assert "23574" not in gpt


def test_links_of_the_documents_lead_somewhere() -> None:
    root = PAGE.parents[1]
    for document in (PAGE, root / "results" / "reference" / "README.md"):
        links = re.findall(r"\]\(([^)#:]+)\)", document.read_text())
        assert links
        assert all((document.parent / link).exists() for link in links)
