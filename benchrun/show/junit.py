"""Verdicts as JUnit XML, which CI servers show: one test case per run."""

import re
from collections.abc import Sequence
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from benchrun.judge.verdict import RunResult
from benchrun.vocabulary import Exit

from .table import visible

NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that no XML document may contain, not even escaped."""


def junit(results: Sequence[RunResult]) -> str:
    """A failure is a slow run, an error one that is invalid or was not judged after it
    failed.

    What passed or was as expected is well; any other run was skipped.
    """
    kinds = list(map(_kind, results))
    suite = Element("testsuite", name="benchrun", tests=str(len(results)))
    for name, element in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(name, str(kinds.count(element)))
    for result, kind in zip(results, kinds, strict=True):
        spec = result.spec
        step = None
        if result.metrics:
            step = result.metrics.step_time_s
        name = _xml(
            f"{spec.precision} {spec.num_gpus} x {spec.gpu} {spec.framework} {result.run_id}"
        )
        case = SubElement(suite, "testcase", classname=_xml(spec.recipe), name=name)
        if step:
            case.set("time", f"{step.median:.6g}")
        reason = _xml(result.verdict.reason if result.verdict else result.judgement)
        if kind:
            SubElement(case, kind, message=f"{result.judgement}: {reason}")
        SubElement(case, "system-out").text = reason
    indent(suite)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + tostring(suite, encoding="unicode") + "\n"


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
