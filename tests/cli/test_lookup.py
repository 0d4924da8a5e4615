"""What a person looks up: recipes, points, suites, runs; with completion, and with a hint where a word is wrong."""

import json
import os
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from test_contract import POINT, call, document

from benchrun import api, hardware, paths
from benchrun.recipes.resolve import resolve
from benchrun.recipes.select import Request
from benchrun.rundir.find import launch_time
from benchrun.show.listing import span
from benchrun.show.point import BAR, bar
from benchrun.show.status import age, status_lines

IMAGE = "nvcr.io/nvidia/nemo:25.07.01"


class TestList:
    def test_has_one_line_a_recipe_of_at_most_110_columns(self) -> None:
        heading, *lines = call("list").stdout.splitlines()
        assert heading.split() == ["RECIPE", "TASK", "GPU", "PRECISION", "GPUS", "POINTS", "PUBLISHED", "FRAMEWORKS"]
        assert [line.split()[0] for line in lines] == sorted(path.stem for path in paths.RECIPES.glob("*.yaml"))
        assert max(map(len, lines)) <= 110

    def test_counts_what_the_points_have(self) -> None:
        (row,) = [row for row in api.list_recipes() if row["recipe"] == "llama3.1-8b"]
        points = document("list", "llama3.1-8b", "--json")
        assert row["points"] == len(points)
        assert {*row["framework"]} == {point["framework"] for point in points}
        assert row["num_gpus"] == sorted({point["num_gpus"] for point in points})
        alike = {(p["gpu"], p["num_gpus"], p["precision"], p["gbs"], p["proxy"]): p["reference"] for p in points}
        assert row["published"] == sum(alike.values())

    def test_of_a_recipe_covers_every_point_in_few_lines(self) -> None:
        points = api.list_points(("llama3.1-8b",))
        layouts = api.list_layouts(("llama3.1-8b",))
        assert len(layouts) < 15 < len(points)
        for point in points:
            same = [
                row
                for row in layouts
                if all(row[name] == point[name] for name in ("gpu", "proxy", "mbs", "tp", "pp", "cp", "vp", "ep"))
                and all(point[name] in row[name] for name in ("precision", "num_gpus", "framework", "gbs"))
            ]
            assert len(same) == 1, point

    def test_all_has_a_line_a_point(self) -> None:
        assert len(call("list", "tiny-llama", "--all").stdout.splitlines()) == 1 + len(api.list_points(("tiny-llama",)))

    def test_a_gpu_without_points_borrows_those_of_another(self, tmp_path: Path) -> None:
        site = tmp_path / "a100.yaml"
        site.write_text(
            "{description: mine, scheduler: local, gpu: A100-PCIe, gpus_per_node: 8, container: {runtime: none}}\n"
        )
        rows = document("list", "--cluster", site, "--json")
        assert {row["gpu"] for row in rows} == {"A100-PCIe"}
        assert {row["derived"] for row in rows} == {"A100", "H100"}
        assert {row["precision"] for row in rows} == {"bf16"}  # it has no FP8
        for words in ((), ("llama3.1-8b",), ("llama3.1-8b", "--all")):
            heading, *lines = call("list", *words, "--cluster", site).stdout.splitlines()
            assert heading.split()[-1].upper() == "DERIVED"
            assert lines and all(line.endswith("00") for line in lines if not line.startswith(" "))
        assert all(row["derived"] is None for row in document("list", "llama3.1-8b", "--json"))

    def test_a_points_own_number_stands_before_one_of_another_layout(self) -> None:
        point = ("llama3-70b", "--gpu", "GB300", "--precision", "fp8", "--num-gpus", "64", "--set", "gbs=128")
        values = [entry["value"] for entry in document("show", *point, "--json")["references"]]
        assert values[:2] == [4346, 4440]
        assert call("show", *point).stdout.index("4,346") < call("show", *point).stdout.index("4,440")

    def test_an_a100_has_points_with_published_numbers(self) -> None:
        rows = document("list", "--gpu", "A100", "--json")
        assert {row["derived"] for row in rows} == {None}
        assert {row["recipe"] for row in rows if row["reference"]} >= {"gpt3-5b", "gpt3-175b", "llama2-70b"}

    def test_an_unknown_gpu_is_refused(self) -> None:
        refused = call("list", "llama3.1-8b", "--gpu", "H2000")
        assert (refused.returncode, "no point is for --gpu H2000" in refused.stderr) == (2, True)
        small = call("list", "llama3.1-8b", "--gpu", "A100-40GB")
        assert (small.returncode, "A100-40GB (40 GiB)" in small.stderr, "benchrun show" in small.stderr) == (
            2,
            True,
            False,
        )

    def test_show_needs_no_scripts_and_notes_that_a_launch_does(self, tmp_path: Path) -> None:
        site = tmp_path / "a100.yaml"
        site.write_text(
            "{description: mine, scheduler: slurm, gpu: A100, gpus_per_node: 8, container: {runtime: none}}\n"
        )
        point = ("llama3.1-8b", "--gpu", "A100", "--precision", "bf16", "--num-gpus", "8", "--cluster", site)
        shown = call("show", *point)
        assert (shown.returncode, "note" in shown.stdout) == (0, True), shown.stderr
        assert "without a container the site must state where the scripts" in shown.stdout
        refused = call("render", *point)
        assert (refused.returncode, "where the scripts of" in refused.stderr) == (2, True)

    def test_cluster_chooses_its_gpu(self) -> None:
        assert {row["gpu"] for row in document("list", "--cluster", "hgx-h200", "--json")} == {"H200"}

    @pytest.mark.parametrize(
        ("inventory", "names"),
        [
            ("suites", {path.stem for path in paths.SUITES.glob("*.yaml")}),
            ("studies", {path.stem for path in paths.STUDIES.glob("*.yaml")}),
            ("plans", {path.stem for path in paths.PLANS.glob("*.yaml")}),
            ("clusters", {path.stem for path in paths.CLUSTERS.glob("*.yaml")}),
            ("gpus", {*hardware.names()}),
            ("frameworks", {*api.DIALECTS} | {row["framework"] for row in api.list_points()}),
        ],
    )
    def test_lists_what_else_there_is(self, inventory: str, names: set[str]) -> None:
        rows = document("list", f"--{inventory}", "--json")
        assert {next(iter(row.values())) for row in rows} == names
        lines = call("list", f"--{inventory}").stdout.splitlines()
        first = {line.split()[0] for line in lines[1:] if not line.startswith(" ")}
        assert first == names, "a name is not broken"
        assert max(map(len, lines)) <= 120

    @pytest.mark.parametrize(
        ("numbers", "text"),
        [([8, 16, 32], "8-32"), ([4], "4"), ([2, 4], "2 4"), ([8, 24, 64], "8 24 64"), ([1, 2, 4, 9], "1..9")],
    )
    def test_a_range_is_short_and_true(self, numbers: list[int], text: str) -> None:
        assert span(numbers) == text


class TestShow:
    def test_has_about_25_lines_with_everything_that_decides(self) -> None:
        lines = call("show", *POINT).stdout.splitlines()
        assert len(lines) <= 25
        heads = [line.split()[0] for line in lines]
        assert {"model", "batch", "work", "layout", "derived", "memory", "published"} <= set(heads)
        assert {"cluster", "image", "launch"} <= set(heads)
        assert max(map(len, lines)) <= 130
        shown = document("show", *POINT, "--json")
        assert f"{shown['memory_gib']['total']:.1f} of 80 GiB" in "\n".join(lines)

    def test_the_command_that_it_prints_is_this_point(self) -> None:
        text = call("show", *POINT).stdout
        words = text[text.index("benchrun launch") :].split()[2:-2]
        assert document("show", *words, "--cluster", "dgx-h100", "--json")["gbs"] == 1024

    def test_of_a_suite_has_a_line_a_run(self) -> None:
        assert len(call("show", "smoke").stdout.splitlines()) == 1 + 5
        assert next(row["recipe"] for row in document("show", "smoke", "--json")) == "tiny-llama"

    def test_a_mapping_is_shown_as_pairs(self) -> None:
        table = call("show", "scaling-h200").stdout
        assert "{" not in table
        assert "exp_avg=bf16 exp_avg_sq=bf16" in table

    def test_the_bar_is_as_long_as_the_gpu_is_large(self) -> None:
        assert bar({"weights": 40.0, "activations": 20.0}, 80.0) == "[" + "w" * 20 + "a" * 10 + "." * 10 + "]"
        assert len(bar({"weights": 100.0}, 80.0)) == BAR + 3
        assert bar({"weights": 0.01}, 80.0).count("w") == 1


class TestStatus:
    def ended(self, folder: Path, recipe: str, state: str, job: str) -> None:
        """A run of ``recipe`` that has ended, from a rendered script."""
        words = {"tiny-llama": ["--precision", "fp32", "--num-gpus", "2"]}.get(recipe, POINT[1:])
        run = folder / "results" / "runs" / f"{recipe}-00000000-2026010{job}T000000Z-abcd"
        assert call("render", recipe, *words, "--output", run).returncode == 0
        events = [
            {"time": "2026-01-01T00:00:00Z", "event": "created"},
            {"time": "2026-01-01T00:00:01Z", "event": "submitted", "job": job},
            {
                "time": "2026-01-01T00:00:02Z",
                "event": "state",
                "state": "RUNNING",
                "phase": "running",
                "nodes": "n[1-2]",
            },
        ]
        (run / "events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
        (run / "ending.json").write_text(json.dumps({"ending": state, "last_step": 7, "final": True, "evidence": []}))
        (run / "metrics.json").write_text(json.dumps({"step_time_s": {"median": 1.25}}))

    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        self.ended(tmp_path, "tiny-llama", "completed", "1")
        self.ended(tmp_path, "llama3.1-8b", "failed", "2")
        return tmp_path

    def test_has_job_nodes_age_and_step_time(self, folder: Path) -> None:
        row = document("status", "--json", cwd=folder)[0]
        assert (row["job"], row["nodes"], row["step_time_s"]) == ("1", "n[1-2]", 1.25)
        assert row["age_s"] > 86400
        line = call("status", cwd=folder).stdout.splitlines()[1].split()
        assert line[1:4] == ["completed", "1", "n[1-2]"]
        assert " ".join(line[6:]) == "7 of 20 1.25 s"

    def test_a_local_run_has_a_short_line(self) -> None:
        row = {"state": "completed", "evidence": ["scheduler: COMPLETED"], "note": None, "job": "/long/" * 20}
        row |= {"run_id": "tiny-llama-7e167111-20261123T032237Z-8e6c", "nodes": "", "age_s": 11.0}
        row |= {"last_step": 20, "planned_steps": 20, "step_time_s": 0.0666}
        failed = row | {"state": "failed", "evidence": ["a traceback " * 30], "job": "63"}
        heading, line, other = status_lines([row, failed])
        assert line.split()[1:3] == ["completed", "local"]
        assert line.endswith("0.0666 s")
        assert other.endswith(" ...")
        assert max(map(len, (heading, line))) <= 120
        assert len(other.partition("0.0666 s   ")[2]) <= 100

    def test_filters(self, folder: Path) -> None:
        def jobs(*options: str) -> list[str]:
            return [row["job"] for row in document("status", "--json", *options, cwd=folder)]

        assert jobs() == ["1", "2"]
        assert jobs("--state", "failed") == ["2"]
        assert jobs("--state", "failed", "--state", "completed", "--last", "1") == ["2"]
        assert jobs("--recipe", "tiny-llama") == ["1"]
        assert jobs("--state", "running") == []
        assert "no running runs in" in call("status", "--state", "running", cwd=folder).stderr

    def test_watch_ends_where_nothing_runs(self, folder: Path) -> None:
        assert len(call("status", "--watch", cwd=folder).stdout.splitlines()) == 3

    def test_cancel_all_leaves_what_has_ended(self, folder: Path) -> None:
        result = call("cancel", "--all", cwd=folder)
        assert (result.returncode, "is going on" in result.stderr) == (0, True)
        assert call("cancel", cwd=folder).returncode == 2
        assert call("cancel", "--all", "tiny-llama", cwd=folder).returncode == 2

    @pytest.mark.parametrize(
        ("seconds", "text"), [(5, "5 s"), (119, "119 s"), (120, "2 min"), (7200, "2 h"), (3 * 86400, "3 d")]
    )
    def test_ages_are_short(self, seconds: float, text: str) -> None:
        assert age(seconds) == text


@pytest.mark.parametrize("options", [(), ("--json",), ("--history",), ("--scaling",)])
def test_a_report_without_runs_has_no_number(tmp_path: Path, options: tuple[str, ...]) -> None:
    result = call("report", *options, cwd=tmp_path)
    assert (result.returncode, result.stdout) == (4, "")
    assert f"no runs in {tmp_path}" in result.stderr


def test_a_wrong_verb_names_the_right_one() -> None:
    assert "did you mean 'launch'?" in call("launc").stderr


def test_every_missing_option_is_named_at_once() -> None:
    hint = call("show", "llama3.1-8b").stderr
    assert all(option in hint for option in ("--gpu", "--precision", "--num-gpus"))


class TestCompletion:
    def complete(self, line: str, cwd: Path | None = None) -> list[str]:
        """What bash would offer after ``line``."""
        words = line.split(" ")
        env = {"_BENCHRUN_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
        code = "from benchrun.cli import main; main()"
        result = subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, **env}, cwd=cwd, capture_output=True, text=True, check=True
        )
        return [line.partition(",")[2] for line in result.stdout.splitlines() if line]

    def test_of_recipes_and_suites(self) -> None:
        assert self.complete("benchrun show llama3.1-8") == ["llama3.1-8b", "llama3.1-8b-grpo", "llama3.1-8b-offline"]
        assert "smoke" in self.complete("benchrun launch sm")
        assert self.complete("benchrun list sm") == []

    def test_of_the_values_that_the_recipe_has(self) -> None:
        assert self.complete("benchrun show llama3.1-8b --gpu ") == [
            "B200",
            "B300",
            "GB200",
            "GB300",
            "GH200",
            "H100",
            "H200",
        ]
        assert self.complete("benchrun show tiny-llama --gpu ") == ["CPU"]
        assert "paxml" not in self.complete("benchrun show llama3.1-8b --gpu H100 --framework ")
        assert self.complete("benchrun show nothing --gpu ") == []

    def test_of_clusters_and_site_files(self, tmp_path: Path) -> None:
        (tmp_path / "mysite.yaml").write_text("")
        offered = self.complete("benchrun show tiny-llama --cluster ", tmp_path)
        assert {"dgx-h100", "mysite.yaml"} <= {*offered}

    def test_of_runs(self, tmp_path: Path) -> None:
        run = tmp_path / "results" / "runs" / "tiny-llama-1"
        call("render", "tiny-llama", "--precision", "fp32", "--num-gpus", "2", "--output", run)
        assert self.complete("benchrun status tiny", tmp_path) == ["tiny-llama-1"]
        for verb in ("explain", "diff", "compare", "report", "explain x --against"):
            assert self.complete(f"benchrun {verb} tiny", tmp_path) == ["tiny-llama-1"]
            assert self.complete(f"benchrun {verb} slurm", tmp_path) == ["slurm"]  # the shell offers its files

    @pytest.mark.parametrize(
        ("line", "offered"),
        [
            ("study micro", "micro-batch"),
            ("nodes dgx", "dgx-h100"),
            ("parse x --gpu H", "H200"),
            ("parse x --framework nemo2", "nemo2"),
            ("compare x --recipe tiny-ll", "tiny-llama"),
        ],
    )
    def test_of_what_a_verb_takes(self, line: str, offered: str) -> None:
        assert offered in self.complete(f"benchrun {line}")

    @pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
    def test_the_script_of_each_shell_calls_benchrun(self, shell: str) -> None:
        script = call("completion", shell).stdout
        assert f"_BENCHRUN_COMPLETE={shell}_complete" in script
        assert "benchrun" in script.splitlines()[-1] + script.splitlines()[0]


class TestShowMore:
    def test_the_launch_line_launches_the_point_that_is_shown(self, tmp_path: Path) -> None:
        site = tmp_path / "my site.yaml"
        site.write_text((paths.CLUSTERS / "dgx-h100.yaml").read_text())
        sets = ("--set", "training.steps=30", "--set", 'env={A: "x y"}')
        line = call("show", *POINT, "--cluster", site, *sets).stdout.splitlines()[-1]
        words = shlex.split(line.partition("benchrun ")[2])
        shown = document("show", *POINT, "--cluster", site, *sets, "--json")
        again = document("show", *words[1:], "--json")
        assert words[0] == "launch"
        assert again["identity"] == shown["identity"]
        assert (again["training"]["steps"], again["env"]["A"]) == (30, "x y")

    def test_the_launch_line_of_an_own_recipe_has_its_path(self, tmp_path: Path) -> None:
        recipe = tmp_path / "my model.yaml"
        recipe.write_text((paths.RECIPES / "llama3.1-8b.yaml").read_text())
        own = ("--gpu", "H100", "--precision", "fp8", "--num-gpus", "8", "--cluster", "dgx-h100")
        line = call("show", recipe, *own).stdout.splitlines()[-1]
        words = shlex.split(line.partition("benchrun ")[2])
        assert words[:2] == ["launch", str(recipe)]
        assert (
            document("show", *words[1:], "--json")["identity"] == document("show", recipe, *own, "--json")["identity"]
        )

    def test_a_study_lists_its_illegal_points_with_the_reason(self) -> None:
        rows = document("show", "tiny", "--json")
        refused = [row for row in rows if row["refused"]]
        assert len(rows) == 5
        assert [row["mbs"] for row in refused] == [3, 3]
        assert all("multiple of mbs" in row["refused"] for row in refused)
        assert all(row["steps"] for row in rows if not row["refused"])
        text = call("show", "tiny").stdout
        assert "REFUSED" in text.splitlines()[0]
        assert "REFUSED" not in call("show", "micro-batch").stdout

    def test_a_study_without_a_legal_point_is_an_error(self) -> None:
        result = call("show", "tiny", "--set", "layout.tp=7")
        assert result.returncode == 2
        assert "tp" in result.stderr

    @pytest.mark.parametrize("verb", [("study", "--dry-run"), ("show",), ("launch", "--dry-run")])
    def test_a_missing_cluster_is_not_the_studys_fault(self, verb: tuple[str, ...]) -> None:
        result = call(verb[0], "micro-batch", "--cluster", "missing.yaml", *verb[1:])
        assert (result.returncode, "missing.yaml" in result.stderr) == (2, True)
        assert "micro-batch" not in result.stderr

    def test_a_check_of_nodes_in_json(self) -> None:
        planned = document("nodes", "slurm-cpu", "--num-nodes", "2", "--dry-run", "--json")
        assert planned["spec"]["num_nodes"] == 2
        assert planned["script"] == call("nodes", "slurm-cpu", "--num-nodes", "2", "--dry-run").stdout


@pytest.mark.parametrize(
    ("wrong", "meant"), [("lama3.1", "llama3.1-8b"), ("llama-3.1-8b", "llama3.1-8b"), ("gptoss", "gpt-oss-20b")]
)
def test_a_recipe_is_found_by_what_was_meant(wrong: str, meant: str) -> None:
    result = call("show", wrong)
    assert result.returncode == 2
    assert f"did you mean '{meant}'" in result.stderr


@pytest.mark.parametrize("wrong", ["qwen", "nothing-like-it"])
def test_few_names_stand_in_the_hint_of_an_unknown_recipe(wrong: str) -> None:
    result = call("show", wrong)
    assert result.returncode == 2
    assert 0 < sum(name in re.split(r"[', ]+", result.stderr) for name in paths.shipped(paths.RECIPES)) <= 5


def test_numbers_of_nodes_are_understood() -> None:
    result = call("show", "llama3.1-8b", "--nodes", "8")
    assert result.returncode == 2
    assert "--num-gpus" in result.stderr


def test_status_of_a_folder_lists_its_newest_runs_with_the_age_of_their_launch() -> None:
    result = call("status", paths.MEASURED, "--last", 3, "--json")
    rows = json.loads(result.stdout)
    assert len(rows) == 3
    for row in rows:
        launched = launch_time(row["run_id"])
        assert launched is not None
        assert row["age_s"] == pytest.approx(time.time() - launched.timestamp(), abs=600)


class TestImages:
    def test_names_each_image_once_with_who_needs_it(self) -> None:
        rows = document("images", "llama3.1-8b", "--gpu", "H100", "--json")
        assert len({row["image"] for row in rows}) == len(rows)
        row = next(row for row in rows if row["image"] == IMAGE)
        assert row["frameworks"] == ["megatron-core", "megatron-lm", "nemo2"]
        assert row["pull"] == "enroot import --output nvidia+nemo+25.07.01.sqsh docker://nvcr.io#nvidia/nemo:25.07.01"
        assert [row["image"] for row in document("images", "llama3.1-8b", "--framework", "nemo2", "--json")] == [IMAGE]

    def test_of_a_suite_names_those_of_its_runs(self) -> None:
        assert {row["recipes"] for row in document("images", "strong-scaling", "--json")} == {2}

    def test_the_printed_map_is_what_the_site_file_takes(self, tmp_path: Path) -> None:
        text = call("images", "llama3.1-8b", "--framework", "nemo2").stdout
        site = {"scheduler": "slurm", "gpu": "H100", "gpus_per_node": 8}
        site |= yaml.safe_load(text[text.index("container:") :])
        site["container"]["runtime"] = "pyxis"
        path = tmp_path / "mysite.yaml"
        path.write_text(yaml.safe_dump(site))
        point = Request("llama3.1-8b", precision="bf16", num_gpus=16, framework="nemo2", cluster=str(path))
        assert resolve(point).image == "/PATH/nvidia+nemo+25.07.01.sqsh"
        row = document("images", "llama3.1-8b", "--framework", "nemo2", "--cluster", str(path), "--json")[0]
        assert row["site"] == "/PATH/nvidia+nemo+25.07.01.sqsh"
        assert "# pull" not in call("images", "llama3.1-8b", "--framework", "nemo2", "--cluster", str(path)).stdout

    def test_the_runtime_decides_how_to_pull(self, tmp_path: Path) -> None:
        path = tmp_path / "mysite.yaml"
        path.write_text("scheduler: slurm\ngpu: A100\ngpus_per_node: 4\ncontainer: {runtime: apptainer}\n")
        row = document("images", "llama3.1-8b", "--framework", "nemo2", "--cluster", str(path), "--json")[0]
        assert row["pull"] == f"apptainer pull nvidia+nemo+25.07.01.sif docker://{IMAGE}"

    def test_what_runs_on_the_host_has_no_image(self) -> None:
        result = call("images", "smoke")
        assert (result.returncode, "no run of these has an image" in result.stderr) == (2, True)

    def test_the_image_of_a_point_is_listed_beside_the_recipes(self) -> None:
        images = {row["image"] for row in document("images", "nemotron-3-ultra", "--json")}
        assert images == {"nvcr.io/nvidia/nemo:26.04.01", "nvcr.io/nvidia/nemo:26.08"}
