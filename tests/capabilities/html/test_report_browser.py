"""The HTML report in a real browser: at both widths, in both colour schemes and on paper nothing overlaps or is cut."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from calling import DEADLINE_S
from selection import chosen, some

from benchrun.capabilities.html.page import page

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
WIDTHS = (1280, 390)
MEDIA = {
    "light": ("@media (prefers-color-scheme: dark)", "@media not all"),
    "dark": ("@media (prefers-color-scheme: dark)", "@media all"),
    "print": ("@media print", "@media all"),
}
"""What is replaced in a page to get each medium."""
PAGES = {"study": "study_page", "kept": "report", "scaling": "scaling_study", "two": "two", "few": "few"}
"""Reports by name, and their fixtures."""
CASES = ["few-390-light", "few-1280-dark", "few-1000-print"]
MORE_CASES = {f"{name}-{width}-light" for name in PAGES for width in WIDTHS} | {"few-390-dark"}
"""Page, width and medium."""
CHECK = (Path(__file__).parent / "page_faults.js").read_text()


def framed(case: str, html: str, folder: Path) -> str:
    """Write the page of a case with the check inside; returns a frame of that width, as a window has a least width."""
    _, width, medium = case.split("-")
    html = html.replace(*MEDIA[medium])
    if medium != "print":
        html = html.replace("<details>", "<details open>")
    file = folder / f"{case}.html"
    file.write_text(html.replace("</body>", f"<script>{CHECK}</script></body>"))
    return f'<iframe src="{file.name}" style="width:{width}px;height:2000px;border:0"></iframe>'


@pytest.fixture(scope="module")
def measured(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """What the browser measured of each case, by the name of its file."""
    if CHROMIUM is None:
        pytest.skip("chromium is not installed")
    folder = tmp_path_factory.mktemp("pages")
    cases = chosen(request, "case")
    names = {case.split("-")[0] for case in cases}
    reports = {name: request.getfixturevalue(PAGES[name]) for name in names}
    pages = {name: each if isinstance(each, str) else page(each) for name, each in reports.items()}
    frames = [framed(case, pages[case.split("-")[0]], folder) for case in cases]
    collect = "addEventListener('load', () => { r.textContent = JSON.stringify([...document.querySelectorAll('iframe')]"
    collect += ".map(f => [f.getAttribute('src'), f.contentWindow.measured])) })"
    file = folder / "all.html"
    file.write_text(f"{''.join(frames)}<pre id=r></pre><script>{collect}</script>")
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files", "--dump-dom"]
    command = [CHROMIUM, *options, "--window-size=1400,2100", "--virtual-time-budget=20000", file.as_uri()]
    result = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S)
    match = re.search(r"<pre id=\"?r\"?>(.*?)</pre>", result.stdout, re.S)
    assert match is not None and match[1], result.stderr[-500:]
    return dict(json.loads(unescape(match[1])))


@pytest.mark.parametrize("case", [*CASES, *some(sorted(MORE_CASES - {*CASES}), 0)])
def test_nothing_overlaps_is_cut_or_is_pale(case: str, measured: dict[str, dict[str, Any]]) -> None:
    result = measured[f"{case}.html"]
    assert result["width"] == int(case.split("-")[1])
    assert result["plots"] > 10
    assert result["tables"] >= result["plots"]
    assert sorted(set(result["faults"]))[:12] == []


BROKEN = {
    "wider than the window": '<p style="width:2000px">x</p>',
    "contrast": '<p style="color:#aaa">pale</p>',
    "cut": "<div style='overflow:hidden;width:20px'><p style='white-space:nowrap'>a long line of text</p></div>",
    "outside": '<svg viewBox="0 0 100 20" width="100"><title>t</title><text x="90" y="12">long text</text></svg>',
    "overlap": '<svg viewBox="0 0 200 40" width="200"><title>t</title><text x="9" y="12">long text</text>'
    '<text x="20" y="14">other</text></svg>',
    "no name": '<svg viewBox="0 0 100 20" width="100"></svg>',
}
"""Fault that the check must see -> what has it."""


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory, two: Any) -> Iterator[list[str]]:
    """The faults of a page that has each kind."""
    if CHROMIUM is None:
        pytest.skip("chromium is not installed")
    file = tmp_path_factory.mktemp("broken") / "page.html"
    body = "".join(BROKEN.values())
    show = "<script>document.body.textContent = JSON.stringify(measured.faults)</script>"
    file.write_text(page(two).replace("</body>", f"{body}<script>{CHECK}</script>{show}</body>"))
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", file.as_uri()]
    result = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S)
    match = re.search(r"<body[^>]*>(.*)</body>", result.stdout, re.S)
    assert match is not None, result.stderr[-500:]
    yield json.loads(unescape(match[1]))


@pytest.mark.parametrize("fault", BROKEN)
def test_the_check_sees_each_kind_of_fault(fault: str, broken: list[str]) -> None:
    assert [each for each in broken if each.startswith(fault)]
