"""Recipes of servers: every point renders to a script that bash reads; what gives no number is refused."""

import contextlib
import json
import shutil
import subprocess
from pathlib import Path

import pytest
from accepted import facts
from selection import some

from benchrun import api, paths
from benchrun.cli import main
from benchrun.errors import UserError
from benchrun.recipes import catalogue
from benchrun.recipes.resolve import resolve, resolve_point
from benchrun.recipes.select import Request
from benchrun.render import render
from benchrun.runspec.inference import InferenceSpec
from benchrun.runspec.spec import RunSpec

FILES = [
    file
    for name in paths.shipped(paths.RECIPES)
    if (file := catalogue.recipe_file(name)).recipe.workload == "inference"
]
POINTS = [(file, point) for file in FILES for point in catalogue.points(file.recipe)]
SGLANG = ("deepseek-r1-inference", "H200", "fp8", 8, "sglang")
VLLM = ("llama3.3-70b-inference", "H200", "fp8", 8, "vllm")
TRTLLM = ("deepseek-r1-offline", "H200", "fp8", 8, "trtllm")
TINY = ("tiny-inference", "CPU", "fp32", 1, "transformers-serve")


def spec(point: tuple[str, str, str, int, str], *overrides: str) -> InferenceSpec:
    found = resolve(Request(*point, overrides=overrides))
    assert isinstance(found, InferenceSpec)
    return found


@pytest.mark.parametrize("number", some(range(len(POINTS)), 12))
def test_a_point_renders_and_reads_back(number: int, tmp_path: Path) -> None:
    file, point = POINTS[number]
    run = resolve_point(file, point)
    files = render(run)
    script = tmp_path / "job.sh"
    script.write_text(files["job.sh"])
    subprocess.run(["bash", "-n", script], check=True)
    if shutil.which("shellcheck"):
        subprocess.run(["shellcheck", "--severity=warning", script], check=True)
    document = tmp_path / "spec.json"
    document.write_text(files["spec.json"])
    assert RunSpec.read(document) == run


@pytest.mark.parametrize(
    ("point", "override", "message"),
    [
        (SGLANG, "tp=4", "must be num_gpus (8)"),
        (SGLANG, "num_prompts=64", "must be at least twice concurrency, 128"),
        (SGLANG, "slo_ttft_ms=500", "counts no goodput"),
        (SGLANG, "checkpoint=null", "needs a checkpoint"),
        (VLLM, "concurrency=null", "state one of them"),
        (VLLM, "ep=8", "the model has no experts"),
        (VLLM, "ep=3", "must be 1 or tp * dp (8)"),
        (("llama3.3-70b-inference", "H200", "fp8", 2, "vllm"), "tp=1", "tp * pp * dp (1 * 1 * 1 = 1)"),
        (TRTLLM, "ep=1", "has no replicas"),
        (TRTLLM, "request_rate=5", "sends all requests at once"),
        (TINY, "checkpoint=a/b", "must be null"),
        (TINY, "output_tokens=4096", "at most max_position_embeddings (512)"),
        (TINY, "prefix_cache=true", "does not support prefix_cache"),
    ],
)
def test_what_gives_no_number_is_refused(point: tuple[str, str, str, int, str], override: str, message: str) -> None:
    with pytest.raises(UserError) as error:
        spec(point, override)
    assert message in error.value.message


def test_a_second_node_is_refused_for_a_server() -> None:
    with pytest.raises(UserError, match=r"starts vllm on one node: num_gpus \(8\) must be at most 4"):
        spec(VLLM, "cluster.gpus_per_node=4")


def test_weights_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    recipe = (paths.RECIPES / "deepseek-r1-inference.yaml").read_text().replace("gpu: H200", "gpu: H100")
    (tmp_path / "r1.yaml").write_text(recipe.replace("model: deepseek-v3", f"model: {paths.MODELS}/deepseek-v3.yaml"))
    with pytest.raises(UserError, match=r"the weights in fp8 need 7. GiB of each GPU"):
        resolve(Request(str(tmp_path / "r1.yaml"), "H100", "fp8", 8, "sglang"))


def test_lengths_below_the_whole_are_written_as_each_client_means_them() -> None:
    sglang = render(spec(SGLANG))["job.sh"]
    assert "--random-input-len=1024 --random-output-len=1024 --random-range-ratio=0.8" in sglang
    vllm = render(spec(VLLM, "shortest=0.8"))["job.sh"]
    assert "--random-input-len=922 --random-output-len=922 --random-range-ratio=0.111111" in vllm


def test_data_parallel_attention_counts_as_tensor_parallelism_where_the_server_means_that() -> None:
    sglang = render(spec(SGLANG, "tp=1", "dp=8", "ep=8"))["job.sh"]
    assert "--tensor-parallel-size=8 --data-parallel-size=8 --ep-size=8" in sglang
    assert "--enable-dp-attention" in sglang
    files = render(spec(TRTLLM))
    assert "--tp=8 --pp=1 --ep=8" in files["job.sh"]
    assert "enable_attention_dp: true" in files["trtllm.yml"]
    assert "--max_batch_size=128 --max_seq_len=3072" in files["job.sh"]


def test_the_load_follows_from_the_concurrency_and_time_to_load_is_no_part_of_the_identity() -> None:
    run = spec(SGLANG, "concurrency=128")
    assert (run.num_prompts, run.warmups) == (1280, 256)
    same = spec(SGLANG, "concurrency=128", "ready_timeout_s=60", "checkpoint=/models/DeepSeek-R1-0528")
    assert same.identity() == run.identity()
    assert spec(SGLANG, "concurrency=128", "stream_interval=1").identity() != run.identity()
    assert json.loads(run.model_dump_json())["workload"] == "inference"


def test_a_folder_of_weights_that_no_mount_holds_is_named() -> None:
    given = ("cluster.time_limit=02:00:00", "checkpoint=/models/DeepSeek-R1")
    (warning,) = api.warnings(spec(SGLANG, *given))
    assert "container.mounts has no folder that holds /models/DeepSeek-R1:" in warning
    for target in ("/models", "/models/DeepSeek-R1"):
        assert not api.warnings(spec(SGLANG, *given, f'cluster.container.mounts=["/scratch:{target}"]'))
    assert not api.warnings(spec(SGLANG, *given[:1]))


def test_a_server_has_time_to_load_unless_the_site_limits_its_job() -> None:
    assert spec(SGLANG).cluster.time_limit == "02:00:00"
    assert not api.warnings(spec(SGLANG))
    (warning,) = api.warnings(spec(SGLANG, "cluster.time_limit=00:30:00"))
    assert "cluster.time_limit" in warning


def test_the_client_asks_no_proxy_for_the_server() -> None:
    """That of vLLM obeys http_proxy, and the server is on its own node."""
    job = render(spec(VLLM))["job.sh"]
    lines = "\n".join(line for line in job.splitlines() if "no_proxy" in line.lower())
    script = f"set -euo pipefail\n{lines}\necho $no_proxy; echo $NO_PROXY"
    for given, found in (({}, ""), ({"NO_PROXY": "a.b"}, ",a.b"), ({"no_proxy": "c", "NO_PROXY": "a.b"}, ",c")):
        shown = subprocess.run(["bash", "-c", script], env=given, capture_output=True, text=True, check=True).stdout
        assert shown.split() == [f"127.0.0.1,localhost{found}"] * 2


def test_show_states_no_steps_of_a_server(capsys: pytest.CaptureFixture[str]) -> None:
    with contextlib.suppress(SystemExit):
        main(["show", SGLANG[0], "--framework", SGLANG[-1]])
    shown = capsys.readouterr().out
    assert "None" not in shown
    assert "identity " in shown


def test_a_proxy_is_labelled_and_has_no_reference() -> None:
    run = spec(SGLANG, "model.num_layers=4")
    assert [str(each) for each in run.reduced] == ["num_layers 4 of 61"]
    assert "PROXY: num_layers 4 of 61" in render(run)["job.sh"]


@pytest.mark.parametrize(("point", "release"), [(VLLM, "vllm_0.32.0"), (SGLANG, "sglang_bench_0.5.23")])
def test_the_release_has_every_option_of_its_client(point: tuple[str, str, str, int, str], release: str) -> None:
    accepted = set(facts(release))
    slo = ("slo_ttft_ms=500",) if point is VLLM else ()
    script = render(spec(point, *slo))["job.sh"]
    client = script.partition("\ncommand=(\n")[2].partition("\n)\n")[0]
    lines = (line for line in client.splitlines() if not line.strip().startswith("#"))
    used = {
        word.strip(chr(39)).partition("=")[0]
        for line in lines
        for word in line.split()
        if word.strip(chr(39)).startswith("--")
    }
    if point is VLLM:
        server = script.partition("\nserver=(\n")[2].partition("\n)\n")[0]
        used |= {word.partition("=")[0] for word in server.split() if word.strip(chr(39)).startswith("--")}
    assert used <= accepted
    assert len(used) > 8
