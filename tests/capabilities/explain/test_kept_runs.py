"""The waterfall of every kept run adds up to its step, and none of these healthy runs has a fault of 3 %."""

from dataclasses import replace
from itertools import chain, combinations
from pathlib import Path

import pytest
from selection import representative

from benchrun import api, kept, paths
from benchrun.capabilities.explain.explanation import explain
from benchrun.capabilities.explain.model import FAULT_SHARE, Explanation

RECORDS = ("samples", "ceilings", "bound", "breakdown", "ranks", "hosts", "fingerprint")
ENTRIES = kept.entries(paths.MEASURED)
KEPT = sorted(run for run in ENTRIES if ENTRIES[run]["workload"] == "training")


@pytest.fixture(scope="module", params=representative(KEPT))
def explained(request: pytest.FixtureRequest) -> Explanation:
    return api.explain_run(api.open_run(str(paths.MEASURED / request.param)))


def test_the_parts_add_up(explained: Explanation) -> None:
    run = api.open_run(str(paths.MEASURED / explained.run))
    assert sum(part.seconds for part in explained.waterfall) == pytest.approx(explained.step_time_s, rel=1e-4)
    assert min(part.seconds for part in explained.waterfall) >= 0
    if (run.path / "breakdown.json").exists():
        median = api.measure_run(run).metrics.step_time_s.median
        assert sum(part.seconds for part in explained.waterfall) == pytest.approx(median, rel=0.02)
        assert not [part for part in explained.waterfall if part.part.startswith("not separated")]


def test_no_fault_is_named(explained: Explanation) -> None:
    faults = [cause for cause in explained.causes if cause.kind == "fault"]
    if explained.against and ENTRIES[explained.run]["verdict"] == "slow":
        return
    assert not [cause for cause in faults if cause.seconds >= FAULT_SHARE * explained.step_time_s]


@pytest.mark.parametrize("name", representative(KEPT))
def test_no_fault_is_named_from_any_set_of_records(name: str) -> None:
    """A healthy run is not blamed for what is not known of it."""
    run = api.evidence(api.open_run(str(paths.MEASURED / name)))
    held = [record for record in RECORDS if getattr(run, record) is not None]
    for left_out in chain.from_iterable(combinations(held, count) for count in range(len(held) + 1)):
        found = explain(replace(run, **dict.fromkeys(left_out)))
        faults = [cause for cause in found.causes if cause.kind == "fault"]
        assert not [cause for cause in faults if cause.seconds >= FAULT_SHARE * run.step_s], left_out


def test_causes_are_ranked_by_what_they_save(explained: Explanation) -> None:
    seconds = [cause.seconds for cause in explained.causes]
    assert seconds == sorted(seconds, reverse=True)
    assert all(cause.advice and cause.evidence for cause in explained.causes)


def test_a_slow_run_is_explained_against_the_reference_of_its_verdict() -> None:
    name, reference = "grok1-314b-49fc44fe-20261126T003955Z-ec7a", "grok1-314b-e9ef4b60-20261123T002510Z-ba8f"
    assert ENTRIES[name]["verdict"] == "slow"
    explained = api.explain_run(api.open_run(str(paths.MEASURED / name)))
    assert (explained.against.name, explained.causes[0].kind) == (reference, "fault")


def test_there_are_enough_of_them() -> None:
    assert len(KEPT) > 70
    assert sum("breakdown.json" in ENTRIES[name]["files"] for name in KEPT) > 40


def test_a_profiled_run_misses_a_trace_alone(tmp_path: Path) -> None:
    name = next(name for name in KEPT if name.startswith("llama3.1-70b"))
    missing = explain(api.evidence(api.open_run(str(paths.MEASURED / name)))).missing
    assert [words for words in missing if "trace" in words]
    assert not [words for words in missing if "breakdown" in words or "ceilings" in words]
