"""Verdicts as JUnit XML, which CI servers show: one test case per run."""

import re
from collections.abc import Sequence
from operator import attrgetter
from typing import NamedTuple
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from benchrun.judge.verdict import RunResult
from benchrun.vocabulary import Exit

from .table import visible

NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that no XML document may contain, not even escaped."""


class Case(NamedTuple):
    """One test case."""

    group: str
    name: str
    kind: str | None
    """The element failure, error or skipped; None if all is well."""
    message: str
    """Message of that element."""
    text: str
    seconds: float | None = None


def junit(results: Sequence[RunResult]) -> str:
    """A failure is a slow run, an error one that is invalid or was not judged after it
    failed.

    What passed or was as expected is well; any other run was skipped.
    """
    cases = []
    for result in results:
        spec = result.spec
        step = result.metrics.step_time_s if result.metrics else None
        name = f"{spec.precision} {spec.num_gpus} x {spec.gpu} {spec.framework} {result.run_id}"
        reason = result.verdict.reason if result.verdict else result.judgement
        message = f"{result.judgement}: {reason}"
        seconds = step.median if step else None
        cases.append(Case(spec.recipe, name, _kind(result), message, reason, seconds))
    return suite(cases)


def suite(cases: Sequence[Case]) -> str:
    """The XML of these cases."""
    kinds = list(map(attrgetter("kind"), cases))
    root = Element("testsuite", name="benchrun", tests=str(len(cases)))
    for name, kind in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        root.set(name, str(kinds.count(kind)))
    for case in cases:
        element = SubElement(root, "testcase", classname=_xml(case.group), name=_xml(case.name))
        if case.seconds:
            element.set("time", f"{case.seconds:.6g}")
        if case.kind:
            SubElement(element, case.kind, message=_xml(case.message))
        SubElement(element, "system-out").text = _xml(case.text)
    indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + tostring(root, encoding="unicode") + "\n"


def _xml(text: str) -> str:
    """``text`` without control characters and changes of direction, with U+FFFD for
    what else XML cannot hold.
    """
    return NOT_XML.sub("\ufffd", visible(text))


def _kind(result: RunResult) -> str | None:
    if result.verdict is None:
        if result.judgement == "not judged":
            return "skipped"
        return "error"
    if result.verdict.verdict == "invalid_run":
        return "error"
    return {Exit.OK: None, Exit.SLOW: "failure"}.get(result.verdict.exit_code, "skipped")
