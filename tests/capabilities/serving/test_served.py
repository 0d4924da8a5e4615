"""A real server answers a real client on this machine's CPU, from recipe to verdict; and what happens when it dies."""

import contextlib
import importlib.util
import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from benchrun import api
from benchrun.capabilities.serving.frameworks.transformers_serve import TransformersServe
from benchrun.cli import main
from benchrun.jobs.endings import Ending
from benchrun.judge import choice
from benchrun.judge.references import load_references
from benchrun.recipes.resolve import resolve
from benchrun.recipes.select import Request

SERVER = """
import http.server, json, os, sys, time
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers()
    def do_POST(self):
        DIE
        time.sleep(0.02)
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200); self.end_headers()
        for _ in range(asked["max_tokens"]):
            time.sleep(0.002)  # the client must see that a token takes time
            self.wfile.write(b'data: ' + json.dumps({"choices": [{"text": "t1 "}]}).encode() + b'\\n\\n')
    def log_message(self, *_): pass
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""
TEMPLATE = """
{% macro prepare() %}
  true
{% endmacro %}
{% macro server() %}
  PYTHON server.py "$port"
{% endmacro %}
{% macro command() %}
  PYTHON -m benchrun.worker.serving.client --spec=spec.json --port="$port" --model=m --output=result.json
{% endmacro %}
"""
HEAD = "metric,value,recipe,task,gpu,num_gpus,precision,num_layers,seq_length,gbs,settings,who,where,date\n"
ROW = 'output_tokens_per_s_per_gpu,{value},tiny-inference,serve,CPU,1,fp32,4,,,"{settings}",us,a page,2026\n'


PYTHON: Path | str = sys.executable
"""Interpreter of the job."""


def request(*overrides: str) -> Request:
    python = f"cluster.python={PYTHON}"
    return Request("tiny-inference", precision="fp32", overrides=(python, "num_prompts=12", *overrides))


def ended(run: Any) -> Ending:
    api.wait(run)
    return api.end_of(api.observe([run])[0]).ending


@pytest.fixture
def own_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Replaces transformers by a few lines that speak the same protocol: ``die`` runs before each answer.

    It needs no weights, so none are made.
    """
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\ncase "$*" in *serving.checkpoint*) exit ;; esac\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    monkeypatch.setitem(globals(), "PYTHON", python)

    def replace(die: str = "pass") -> None:
        folder = tmp_path / "templates"
        (folder / "frameworks").mkdir(parents=True)
        (folder / "frameworks" / "own.sh.j2").write_text(TEMPLATE.replace("PYTHON", sys.executable))
        (folder / "frameworks" / "server.py.j2").write_text(SERVER.replace("DIE", die))
        monkeypatch.setattr(TransformersServe, "folder", folder)
        monkeypatch.setattr(TransformersServe, "template", "frameworks/own.sh.j2")
        monkeypatch.setattr(TransformersServe, "files", ("server.py",))

    return replace


needs_server = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("uvicorn", "fastapi", "openai", "transformers")),
    reason="the extra serve is not installed",
)


@needs_server
def test_transformers_serves_a_tiny_model_and_nothing_is_left(tmp_path: Path) -> None:
    run = api.start(resolve(request()), tmp_path / "runs")
    assert ended(run) is Ending.COMPLETED, (run.path / "stderr.log").read_text()
    metrics = api.judge_runs([run]).metrics
    assert metrics is not None
    assert (metrics.complete, metrics.results["completed"], metrics.results["total_output_tokens"]) == (
        True,
        12,
        12 * 16,
    )
    assert metrics.results["total_input_tokens"] == 12 * 32
    written = json.loads((run.path / "result.json").read_text())
    assert metrics.results["output_tokens_per_s"] == pytest.approx(written["output_throughput"], abs=0.01)
    assert metrics.results["mean_tpot_ms"] <= metrics.results["mean_e2el_ms"] / 15
    assert not (run.path / "checkpoint").exists()
    assert "Finished server process" in (run.path / "server.log").read_text()


def test_a_run_is_judged_by_its_load(tmp_path: Path, own_server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    own_server()
    run = api.start(resolve(request()), tmp_path / "runs")
    assert ended(run) is Ending.COMPLETED, (run.path / "stderr.log").read_text()
    store = tmp_path / "reference"
    store.mkdir()
    measured = api.judge_runs([run]).metrics
    assert measured is not None
    rate = measured.metrics.get("output_tokens_per_s_per_gpu")
    assert rate is not None and rate > 0, (measured.problems, measured.results)
    for value, settings, verdict in (
        (rate, run.spec.settings, "pass"),
        (2 * rate, run.spec.settings, "slow"),
        (rate, run.spec.settings.replace("concurrency 4", "concurrency 8"), "not_comparable"),
        (rate, "", "not_comparable"),
    ):
        (store / "tiny-inference.csv").write_text(HEAD + ROW.format(value=value, settings=settings))
        load_references.cache_clear()
        monkeypatch.setattr(choice, "load_references", partial(load_references, store))
        assert api.judge_runs([run]).verdict.verdict == verdict, settings
    load_references.cache_clear()


def test_reports_show_what_a_server_measured(
    tmp_path: Path, own_server: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    own_server()
    monkeypatch.setenv("BENCHRUN_RESULTS", str(tmp_path))
    run = api.start(resolve(request("slo_tpot_ms=1000")))
    assert ended(run) is Ending.COMPLETED, (run.path / "stderr.log").read_text()
    for verb in (["compare"], ["report"], ["report", "--format", "json"], ["status"], ["parse"]):
        with contextlib.suppress(SystemExit):
            main([*verb, str(run.path)])
        printed = capsys.readouterr()
        assert "Traceback" not in printed.err, verb
    assert "time to first token" in printed.out
    assert "goodput requests/s" in printed.out


@pytest.mark.parametrize(
    ("die", "expected"),
    [("os._exit(3)", "the server ended during the benchmark"), ("self.send_error(500); return", "failed")],
)
def test_a_server_that_dies_or_fails_gives_no_number(tmp_path: Path, own_server: Any, die: str, expected: str) -> None:
    own_server(die)
    run = api.start(resolve(request("warmups=0")), tmp_path / "runs")
    assert ended(run) is Ending.FAILED
    assert expected in (run.path / "stderr.log").read_text() + (run.path / "stdout.log").read_text()
    judgement = api.judge_runs([run])
    assert judgement.verdict.verdict == "invalid_run"
    assert not judgement.metrics or "output_tokens_per_s_per_gpu" not in judgement.metrics.metrics


def test_some_failed_requests_make_the_run_invalid(tmp_path: Path, own_server: Any) -> None:
    own_server("Handler.count = getattr(Handler, 'count', 0) + 1\n        if Handler.count == 3: return")
    run = api.start(resolve(request("warmups=0")), tmp_path / "runs")
    assert ended(run) is Ending.COMPLETED
    judgement = api.judge_runs([run])
    assert judgement.verdict.verdict == "invalid_run"
    assert "failed_requests: 1 of 12" in judgement.verdict.reason


def test_a_server_that_does_not_start_ends_the_job(tmp_path: Path, own_server: Any) -> None:
    own_server()
    folder = tmp_path / "templates" / "frameworks"
    (folder / "server.py.j2").write_text("raise SystemExit('no weights here')")
    run = api.start(resolve(request()), tmp_path / "runs")
    assert ended(run) is Ending.FAILED
    assert "the server ended before it was ready" in (run.path / "stderr.log").read_text()
    assert "no weights here" in (run.path / "stderr.log").read_text()
