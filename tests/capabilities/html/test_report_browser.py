"""The HTML report in a real browser: what each control does, and that nothing overlaps, is cut or keeps anyone out."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from selection import some

from benchrun import api, paths
from benchrun.capabilities.html.page import page
from benchrun.show.model import ReportModel

PAGES = {name: name for name in ("kept", "two", "few", "nodes")}
PAGES |= {"study": "study_page", "scaling": "scaling_study"}
"""Reports by name, and their fixtures."""
CASES = ["kept-1280-light", "kept-390-dark", "nodes-1280-light"]
MORE_CASES = {f"{name}-{width}-{scheme}" for name in PAGES for width in (1280, 390) for scheme in ("light", "dark")}
FAULTS = (Path(__file__).parent / "page_faults.js").read_text()
FIRST_LINK = "document.querySelector('#all tbody a')"
DIALOG = "document.querySelector('dialog')"
SHOWN = "[...document.querySelectorAll('#all tbody tr:not([hidden])')]"


@pytest.fixture(scope="module")
def kept() -> ReportModel:
    """On kept runs of many recipes."""
    return api.report_on([api.run_data(run) for run in api.find_runs(paths.MEASURED)[::12]])


@pytest.fixture(scope="module")
def nodes(few: ReportModel) -> ReportModel:
    """On runs that have several nodes each."""
    runs = []
    for number, run in enumerate(few.results):
        hosts = [{"host": f"hgx-cluster-{number + skipped:02d}"} for skipped in (0, 1, 9)]
        runs.append(replace(run, environment={"nodes": hosts}))
    return api.report_on(runs)


@pytest.fixture(scope="module")
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Writes the page of a report, once."""
    folder = tmp_path_factory.mktemp("pages")

    def write(name: str) -> Path:
        file = folder / f"{name}.html"
        if not file.exists():
            made = request.getfixturevalue(PAGES[name])
            file.write_text(made if isinstance(made, str) else page(made))
        return file

    return write


def fill(browser: Any, control: str, value: str) -> None:
    """Enter a value as a user does."""
    found = f"document.querySelector({control!r})"
    browser.js(f"{found}.value = {value!r}; {found}.dispatchEvent(new Event('input', {{bubbles: true}}))")


def press(browser: Any, name: str) -> None:
    browser.js(f"[...document.querySelectorAll('button')].find(each => each.textContent === {name!r}).click()")


def cells(browser: Any, title: str) -> list[str]:
    """The cells of a column, of the rows that are shown."""
    titles = browser.js("[...document.querySelectorAll('#all th')].map(th => th.querySelector('button').textContent)")
    return browser.js(f"{SHOWN}.map(row => row.cells[{titles.index(title)}].textContent)")


@pytest.mark.parametrize("case", [*CASES, *some(sorted(MORE_CASES - {*CASES}), 0)])
def test_nothing_overlaps_is_cut_or_is_pale(case: str, browser: Any, written: Any) -> None:
    name, width, scheme = case.split("-")
    for script in (False, True):
        browser.open(written(name), width=int(width), scheme=scheme, script=script)
        browser.call("Emulation.setScriptExecutionDisabled", value=False)
        browser.js("document.querySelectorAll('details').forEach(each => { each.open = true })")
        assert browser.js(FAULTS)[:12] == []
    browser.js(f"{FIRST_LINK}.click()")
    assert browser.js(FAULTS)[:12] == []
    assert not browser.thrown


@pytest.mark.thorough
@pytest.mark.parametrize("case", sorted(MORE_CASES))
def test_axe_finds_no_violation(case: str, browser: Any, written: Any) -> None:
    axe = pytest.importorskip("axe_core_python")
    source = (Path(axe.__file__).parent / "axe.min.js").read_text()
    run = "axe.run().then(found => found.violations.map(each => `${each.id}: ${each.nodes[0].html}`))"
    name, width, scheme = case.split("-")
    for part in ("", "#?open=0", "#?compare=0,1"):
        browser.open(written(name), part, width=int(width), scheme=scheme)
        browser.js(f"{source}; 0")
        assert browser.js(run) == []


def test_rows_are_sorted_by_a_column_and_the_address_keeps_it(browser: Any, written: Any) -> None:
    browser.open(written("kept"))
    for title in ("ratio", "step time s", "tokens/s/GPU"):
        press(browser, title)
        ascending = [float(cell.replace(",", "")) for cell in cells(browser, title) if cell]
        assert ascending == sorted(ascending) and len(ascending) > 5
        press(browser, title)
        assert [float(cell.replace(",", "")) for cell in cells(browser, title) if cell] == ascending[::-1]
    press(browser, "launched")
    assert cells(browser, "launched") == sorted(cells(browser, "launched"))
    assert browser.js("document.querySelector('th[aria-sort=ascending]').textContent") == "launched"
    browser.open(written("kept"), browser.js("location.hash"))
    assert cells(browser, "launched") == sorted(cells(browser, "launched"))


def test_rows_are_filtered_by_words_verdict_and_dates(browser: Any, written: Any) -> None:
    browser.open(written("kept"))
    every = browser.js(f"{SHOWN}.length")
    fill(browser, "#tools input[type=search]", "LLAMA fp8")
    named = cells(browser, "run")
    assert 0 < len(named) < every and all("llama" in name and "fp8" in name for name in named)
    assert browser.js("document.querySelector('[role=status]').textContent") == f"{len(named)} of {every} runs"
    address = browser.js("location.hash")
    press(browser, "Reset")
    assert browser.js(f"{SHOWN}.length") == every
    fill(browser, "#tools select", "as expected")
    assert set(cells(browser, "verdict")) == {"as expected"}
    press(browser, "Reset")
    days = sorted(set(cells(browser, "launched")))
    fill(browser, "#tools input[type=date]", days[1])
    assert sorted(set(cells(browser, "launched"))) == days[1:]
    fill(browser, "#tools label:nth-of-type(4) input", days[1])
    assert set(cells(browser, "launched")) == {days[1]}
    browser.open(written("kept"), address)
    assert cells(browser, "run") == named


def test_a_run_opens_with_its_steps_and_back_closes_it(browser: Any, written: Any) -> None:
    browser.open(written("few"))
    name = browser.js(f"{FIRST_LINK}.textContent")
    assert not browser.js("document.querySelectorAll('dialog canvas').length")
    browser.js(f"{FIRST_LINK}.click()")
    assert browser.js(f"{DIALOG}.open") and name in browser.js(f"{DIALOG}.querySelector('h2').textContent")
    assert browser.js(f"{DIALOG}.querySelectorAll('canvas').length") == 4  # steps, clock, power, temperature
    # A hovered step has its time below the plot.
    hover = "const over = document.querySelector('dialog .u-over'), at = over.getBoundingClientRect();"
    hover += "const place = {clientX: at.left + 200, clientY: at.top + 50, bubbles: true};"
    hover += "over.dispatchEvent(new MouseEvent('mousemove', place));"
    browser.js(f"(() => {{ {hover} }})()")
    text = browser.js(
        "new Promise(done => setTimeout(() => done(document.querySelector('dialog .chart p').textContent), 100))"
    )
    assert re.match(r"step \d+: step time [\d.]+", text)
    address = browser.js("location.hash")
    press(browser, "Close")
    assert not browser.js(f"{DIALOG}.open") and browser.js("location.hash") == ""
    for part in (address, f"#r{address.rpartition('=')[2]}"):
        browser.open(written("few"), part)
        assert name in browser.js(f"{DIALOG}.querySelector('h2').textContent")


def test_any_two_runs_are_compared(browser: Any, written: Any) -> None:
    browser.open(written("few"))
    button = "[...document.querySelectorAll('button')].find(each => each.textContent === 'Compare two')"
    assert browser.js(f"{button}.disabled")
    browser.js("[...document.querySelectorAll('#all input')].slice(1, 3).forEach(box => box.click())")
    names = cells(browser, "run")[1:3]
    rates = [float(cell.replace(",", "")) for cell in cells(browser, "tokens/s/GPU")[1:3]]
    press(browser, "Compare two")
    text = browser.js(f"{DIALOG}.innerText")
    ratio, low, high = map(
        float, re.search(r"takes ([\d.]+) times as long as A \(([\d.]+) to ([\d.]+)\)", text).groups()
    )
    assert low <= ratio <= high and ratio == pytest.approx(rates[0] / rates[1], abs=0.001)
    assert all(name in text for name in names) and "Where the seconds went" in text and "What differs" in text
    assert browser.js(f"{DIALOG}.querySelectorAll('canvas').length") == 1


def test_runs_of_different_work_have_no_ratio(browser: Any, written: Any) -> None:
    browser.open(written("kept"))
    works = [name.split(",")[0] for name in cells(browser, "run")]
    other = next(index for index, work in enumerate(works) if work != works[0])
    numbers = browser.js(f"{SHOWN}.map(row => row.querySelector('a').hash.slice(2))")
    browser.js(f"location.hash = '#?compare={numbers[0]},{numbers[other]}'")
    browser.js("new Promise(done => setTimeout(done, 50))")
    text = browser.js(f"{DIALOG}.innerText")
    assert f"{works[0]} and {works[other]} are different work" in text and "times as long" not in text


def test_a_section_is_reached_and_the_filter_stays(browser: Any, written: Any) -> None:
    browser.open(written("kept"), "#?verdict=slow")
    shown = cells(browser, "run")
    browser.js("document.querySelector('nav a[href=\"#published\"]').click()")
    browser.js("new Promise(done => setTimeout(done, 50))")
    assert browser.js("location.hash") == "#published" and browser.js("scrollY") > 0
    assert cells(browser, "run") == shown


def test_a_hovered_row_says_against_what(browser: Any, written: Any) -> None:
    browser.open(written("kept"))
    move = "const row = document.querySelector('#all tbody tr'), at = row.getBoundingClientRect();"
    move += (
        "row.cells[1].dispatchEvent(new MouseEvent('mousemove', {clientX: 300, clientY: at.top + 5, bubbles: true}));"
    )
    browser.js(f"(() => {{ {move} }})()")
    ratio, against = cells(browser, "ratio")[0], cells(browser, "against")[0]
    tip = browser.js("document.querySelector('#tip:not([hidden])').textContent")
    assert tip.startswith(ratio) and against in tip


def test_runs_are_drawn_over_time_by_any_value(browser: Any, written: Any) -> None:
    browser.open(written("kept"))
    over = "document.querySelector('#over')"
    assert browser.js(f"{over}.querySelectorAll('canvas').length") == 1
    fill(browser, "#over select", "MFU")
    assert "MFU" in browser.js(f"{over}.querySelector('[role=img]').ariaLabel")
    assert "over=MFU" in browser.js("location.hash")
    fill(browser, "#tools input[type=search]", "no such run")
    assert "no run" in browser.js(f"{over}.textContent")


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["kept", "two"])
def test_paper_has_a_summary_and_at_most_a_page_a_run(name: str, browser: Any, written: Any) -> None:
    browser.open(written(name))
    runs = browser.js(f"{SHOWN}.length")
    pages = len(re.findall(rb"/Type\s*/Page\b", browser.pdf()))
    assert 2 <= pages <= runs + 1
    browser.open(written(name), width=718, media="print", scheme="dark")
    summary = "document.querySelector('#each').getBoundingClientRect().top + scrollY"
    assert browser.js(summary) < 1030  # the height of A4 less its margins
    assert browser.js("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"


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


@pytest.mark.parametrize("fault", some(BROKEN, 2))
def test_the_check_sees_each_kind_of_fault(fault: str, browser: Any, written: Any) -> None:
    browser.open(written("two"))
    browser.js(f"document.body.insertAdjacentHTML('beforeend', {BROKEN[fault]!r})")
    assert [each for each in browser.js(FAULTS) if each.startswith(fault)]
