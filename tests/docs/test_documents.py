"""The documents are true: links lead somewhere, commands run, generated pages are up to date."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import kept_runs
import pytest
from calling import DEADLINE_S
from selection import some

from benchrun.cli import main

ROOT = Path(__file__).parent.parent.parent
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("*/README.md"), *ROOT.glob("*/*/README.md")]
TRACES = ROOT / "tests/capabilities/traces/traces"
SERVED = ROOT / "tests/logs/serving"
KEPT = "llama3.1-8b-3d2e1113-20261123T032821Z-6cac"
"""A run of results/measured whose trace is kept too."""
LOG = "slurm-1234.out"
"""The log of the pages: step lines alone, so that every option of a command fits it."""
STEP = (
    " iteration {step:8d}/      50 | consumed samples: {samples:12d} | "
    "elapsed time per iteration (ms): {ms:.1f} | global batch size:   128 | lm loss: {loss:.6E} | "
    "number of skipped iterations:   0 | number of nan iterations:   0 |\n"
)
EXAMPLES = (
    ("my-cluster", "mysite.yaml"),
    ("accept-a-cluster", "acceptance.yaml"),
    ("run-a-study", "mystudy.yaml"),
    ("my-command", "mycommand.yaml"),
)
"""How-to page and the file in it."""
PACK = "acceptance.tar.gz"
"""The pack of a plan of one run."""
HUGGING_FACE = {
    "model_type": "llama", "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16,
    "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256, "max_position_embeddings": 131072,
}  # fmt: skip
PLAN = {
    "description": "One run",
    "cluster": "local",
    "runs": [{"recipe": "tiny-llama", "precision": "fp32", "num_gpus": [1]}],
    "criteria": {"at_least": {"tokens_per_s_per_gpu": 1}},
}
ANSWERS = {0, 1, 4}
"""Exit codes of a command that was understood and carried out."""


def commands() -> list[tuple[str, str]]:
    """Page and command line of every benchrun call in a ``bash`` block.

    Those of datagen write gigabytes: tests/datagen runs the same verbs on small data.
    """
    calls = []
    for page in PAGES:
        for block in re.findall(r"^```bash\n(.*?)^```", page.read_text(), re.M | re.S):
            for line in block.replace("\\\n", " ").splitlines():
                call = line.partition(" #")[0].partition(" > ")[0].strip()
                if call.startswith("benchrun "):
                    calls.append((str(page.relative_to(ROOT)), call))
    return calls


def test_an_assignment_of_a_page_has_no_blank() -> None:
    blocks = (block for page in PAGES for block in re.findall(r"^```bash\n(.*?)^```", page.read_text(), re.M | re.S))
    assert [line for block in blocks for line in block.splitlines() if re.match(r"(export )?\w+= \S", line)] == []


def arguments(call: str, run: str, folder: Path) -> list[str]:
    """Words of the call, with real files and a real run in place of the page's examples.

    ``launch`` stops before it submits.
    """
    _, *words = shlex.split(call)
    names = {LOG: str(folder / LOG), "RUN": run, "OTHER": run}
    names |= {"traces/": str(TRACES / "h200_llama_tp2_pp2_bf16")}
    names |= {"dumps/": str(folder / "dumps")}
    names |= {
        "logs": str(folder / "dumps"),
        "/logs/of/march": str(folder / "dumps"),
        "sacct.txt": str(folder / "sacct.txt"),
    }
    names |= {"result.json": str(SERVED / "vllm-cpu-tiny.json")}
    names |= {"result.jsonl": str(SERVED / "sglang-deepseek-offline.jsonl")}
    names |= {"rank0.sqlite": str(TRACES / "nsys_2025_h200_slow_loader.sqlite.xz")}
    names |= {name: str(folder / name) for _, name in EXAMPLES}
    names |= {name: str(folder / name) for name in (PACK, "config.json", "mymodel.yaml", "registered.jsonl")}
    names |= {"PROFILED_RUN": str(folder / "profiled"), "results/measured": str(folder / "measured")}
    if words[:2] == ["explain", "RUN"] and "traces/" in words:  # a trace of another run is refused
        names |= {
            "RUN": str(ROOT / "results/measured" / KEPT),
            "traces/": str(ROOT / "results/measured" / KEPT / "profile"),
        }
    words = [names.get(word, word) for word in words]
    if words[:2] == ["site", "init"]:
        words += ["--output", str(folder / "new.yaml")]
    if words[0] == "nodes":
        words += ["--num-nodes=3", "--dry-run"]  # without Slurm no node is idle
    submits = words[0] in ("launch", "profile", "study", "plan") and "--report" not in words
    if submits and "--dry-run" not in words:
        words = [word for word in words if word != "--wait"] + ["--dry-run"]
    return words


def step_line(step: int) -> str:
    """One line of Megatron-LM for Llama 3.1 8B on eight H100 at a batch of 128: 12.2 s a step."""
    return STEP.format(step=step, samples=128 * step, ms=12200 + step % 3, loss=8 - step / 100)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A folder with the site file of the documents, and the id of a run that was trained and judged there."""
    folder = tmp_path_factory.mktemp("documents")
    for page, name in EXAMPLES:
        text = (ROOT / f"docs/how-to/{page}.md").read_text()
        example = re.search(rf"```yaml\n# {name}\n(.*?)```", text, re.S)
        assert example is not None
        (folder / name).write_text(example[1])
    words = ["launch", "tiny-llama", "--precision", "fp32", "--num-gpus", "1", "--wait"]
    result = call_in(folder, [sys.executable, "-m", "benchrun", *words])
    assert result.returncode in ANSWERS, result.stderr
    (folder / "one.yaml").write_text(json.dumps(PLAN))
    packed = ["plan", str(folder / "one.yaml"), "--pack", str(folder / PACK)]
    result = call_in(folder, [sys.executable, "-m", "benchrun", *packed])
    assert result.returncode == 0, result.stderr
    (folder / "config.json").write_text(json.dumps(HUGGING_FACE))
    words = ["recipe", "from-hf", str(folder / "config.json"), "--output", str(folder / "mymodel.yaml")]
    result = call_in(folder, [sys.executable, "-m", "benchrun", *words])
    assert result.returncode == 0, result.stderr
    (folder / LOG).write_text("".join(step_line(step) for step in range(1, 51)))
    (folder / "profiled").mkdir()
    (folder / "dumps").mkdir()
    (folder / "sacct.txt").write_text("JobID|JobName|State|ExitCode|Start|End|NodeList|AllocTRES\n")
    (folder / "dumps" / "rank_0.json").write_text('{"rank": 0, "state": "S"}')
    (folder / "profiled" / "spec.json").write_text("{}")
    (folder / "profiled" / "profile").symlink_to(TRACES / "h200_llama_tp2_pp2_bf16")
    for kept in kept_runs.named("llama3.1-8b-2c0cb897-*"):
        shutil.copytree(kept_runs.folder(kept), folder / "measured" / kept.name)
    return folder, next(path.name for path in (folder / "results/runs").iterdir() if (path / "spec.json").exists())


def variables(folder: Path) -> dict[str, str]:
    """Environment of a call, with the results in ``folder``.

    On a machine with Slurm the pages would describe another cluster.
    """
    return {"BENCHRUN_RESULTS": str(folder / "results"), "HF_TOKEN": "x", "SLURM_CONF": "/dev/null"}


def call_in(folder: Path, words: list[str]) -> subprocess.CompletedProcess[str]:
    """Run ``words`` in the repository, with the results in ``folder``."""
    env = {**os.environ, **variables(folder)}
    return subprocess.run(words, cwd=ROOT, env=env, capture_output=True, text=True, timeout=DEADLINE_S)


@pytest.mark.train
@pytest.mark.parametrize(("page", "call"), commands(), ids=lambda value: str(value)[:60])
def test_every_command_in_the_documents_runs(
    page: str, call: str, finished: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, run = finished
    words = arguments(call, run, folder)
    words = [str(tmp_path / word) if word.startswith("evidence") else word for word in words]
    if words[0] == "predict" and words[1].endswith(("-inference", "-grpo")):
        pytest.importorskip("aiconfigurator")  # extra predict
    for option in {"--output", "--html"}.intersection(words):
        place = words.index(option) + 1
        words[place] = str(tmp_path / f"output{Path(words[place]).suffix}")
    for name, value in variables(folder).items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(ROOT)
    with pytest.raises(SystemExit) as ended:
        main(words)
    expected = ANSWERS | ({3} if {"doctor", "site"} & {*words} else set())  # here is no Slurm
    assert (ended.value.code or 0) in expected, f"{page}: {call}"


@pytest.mark.train
def test_the_python_of_the_documents_runs(finished: tuple[Path, str], tmp_path: Path) -> None:
    folder, run = finished
    (code,) = re.findall(r"^```python\n(.*?)^```", (ROOT / "docs/how-to/python.md").read_text(), re.M | re.S)
    code = re.sub("RUN|OTHER", run, code.replace("results/runs", str(folder / "results/runs")))
    result = call_in(folder, [sys.executable, "-c", code])
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines()[1].startswith("PASS")


def test_links_and_pictures_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.relative_to(ROOT)}: {target}"


def test_files_and_folders_that_the_documents_name_exist() -> None:
    ours = [page for page in PAGES if page.parent.name != "logs"]  # that page names files of other projects
    missing = [
        f"{page.relative_to(ROOT)}: {name}"
        for page in ours
        for name in re.findall(r"`((?:benchrun|templates|recipes|tests|datagen|docs)/[\w./*-]+)`", page.read_text())
        if "NAME" not in name and not any(ROOT.glob(name.rstrip("/")))
    ]
    assert missing == []


PAGES_WITHOUT_RUNS = ["published.md", *(f"reference/{page.name}" for page in (ROOT / "docs/reference").glob("*.md"))]


@pytest.mark.parametrize("names", some([PAGES_WITHOUT_RUNS, []], 1), ids=["without runs", "all"])
def test_generated_pages_are_up_to_date(names: list[str]) -> None:
    """The others need the logs of all kept runs."""
    command = [sys.executable, ROOT / "docs/generate.py", "--check", *names]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr


def test_the_readme_names_the_range_of_its_picture() -> None:
    ratios = re.findall(r"ratio (\d+\.\d\d)", (ROOT / "docs/images/measured.svg").read_text())
    low, high = min(ratios, key=float), max(ratios, key=float)
    assert f"{low} to {high} times" in " ".join((ROOT / "README.md").read_text().split())


def test_the_first_pages_are_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 100
    assert len((ROOT / "CONTRIBUTING.md").read_text().split()) <= 900
    releases = (ROOT / "CHANGELOG.md").read_text().split("\n## ")[1:]
    assert [release.splitlines()[0] for release in releases if release.count("\n- ") > 10] == []


@pytest.mark.skipif(shutil.which("mkdocs", path=Path(sys.executable).parent) is None, reason="mkdocs is not installed")
def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    result = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    assert (tmp_path / "reference/commands/index.html").exists()
