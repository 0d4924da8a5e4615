"""A run's identity knows what is measured and nothing else; it is the same in every version that knows its form."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kept_runs
import pytest
from pydantic import BaseModel
from selection import some

from benchrun.errors import UserError
from benchrun.jobs.create import create
from benchrun.model.parts import Mamba, Mla, RopeScaling, Window
from benchrun.recipes.resolve import resolve
from benchrun.recipes.select import Request
from benchrun.render import render
from benchrun.rundir.folder import RunDir
from benchrun.runspec.identity import canonical
from benchrun.runspec.image_names import image_name
from benchrun.runspec.spec import RunSpec, TrainingSpec
from benchrun.runspec.training import Fp8, Training
from benchrun.usecases.keep import public_spec

HERE = Path(__file__).parent
GOLDEN = [json.loads(line) for line in (HERE / "identities.jsonl").read_text().splitlines()]
SCHEMA_1 = [json.loads(line) for line in (HERE / "schema_1.jsonl").read_text().splitlines()]
POINT = Request("llama3.1-8b", "H100", "fp8", 8, "megatron-core", "dgx-h100")
SITE = """
description: somewhere else
scheduler: slurm
gpu: H100
gpus_per_node: 8
partition: a
account: b
exclusive: false
cpus_per_task: 12
time_limit: "02:00:00"
python: /opt/conda/bin/python
setup: [module load x]
sbatch_options: [--comment=x]
secrets: [HF_TOKEN]
binding: {cpu_bind: none}
env: {NCCL_NVLS_ENABLE: "1", NCCL_SOCKET_IFNAME: ib7, NCCL_DEBUG: WARN}
container: {runtime: apptainer, image: /lustre/b/nvidia+nemo+25.07.01.sqsh, mounts: [/lustre:/data]}
"""
OUTSIDE = {
    *("schema_version", "workload", "recipe", "proxy", "reduced", "source", "derived", "dp", "num_microbatches"),
    *("replaced_image", "training.ceilings", "training.breakdown", "megatron"),
    *("profile.steps", "profile.ranks", "profile.trace", "profile.options", "profiled_steps"),
}
"""What the form leaves out, besides the whole of ``cluster``."""


def test_an_id_that_was_given_once_is_given_for_ever() -> None:
    for case in GOLDEN:
        assert RunSpec.model_validate(case["spec"]).identity() == case["identity"], case["spec"]["recipe"]


def test_the_ids_held_are_of_every_framework_and_task_and_all_differ() -> None:
    specs = [RunSpec.model_validate(case["spec"]) for case in GOLDEN]
    every = {"megatron-core", "megatron-lm", "nemo1", "nemo2", "megatron-bridge", "hf", "maxtext", "paxml"}
    assert {spec.framework for spec in specs} == every
    assert {spec.task for spec in specs} == {"pretrain", "sft", "lora"}
    assert len({spec.identity() for spec in specs}) == len(specs)


def test_a_new_field_and_another_default_leave_every_id() -> None:
    class LaterFp8(Fp8):
        format: str = "e4m3"
        another: bool = False

    class LaterTraining(Training):
        steps: int = 7
        fp8: LaterFp8 = LaterFp8()
        a_new_one: str = "as before"

    class Later(TrainingSpec):
        training: LaterTraining
        spare_nodes: int = 0

    for case in GOLDEN:
        assert Later.model_validate(case["spec"]).identity() == case["identity"], case["spec"]["recipe"]


def test_the_form_has_names_of_its_own_and_says_what_is_not_usual() -> None:
    spec = RunSpec.model_validate(GOLDEN[0]["spec"])
    assert canonical(spec) == {
        **{"framework": "megatron-core", "image": "nemo:25.07.01", "task": "pretrain", "gpu": "H100", "gpus": 64},
        **{"nodes": 8, "precision": "fp8", "sequence": 8192, "micro_batch": 1, "batch": 1024, "steps": 50},
        **{"layers": 32, "width": 4096, "mlp": 14336, "heads": 32, "kv_heads": 8, "head_width": 128},
        **{"vocabulary": 128256, "rotary.base": 500000, "cp": 2, "lr": 3e-6, "lr.end": 3e-7},
        **{"fp8": "delayed", "fp8.format": "hybrid", "fp8.history": 1024, "fp8.amax": "max"},
        **{"env.NCCL_NVLS_ENABLE": "0", "env.PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"},
        **{"env.OMP_NUM_THREADS": "1", "env.TORCH_NCCL_AVOID_RECORD_STREAMS": "1"},
        "env.CUDA_DEVICE_MAX_CONNECTIONS": "1",
    }


def test_the_same_point_on_two_sites_has_one_identity(tmp_path: Path) -> None:
    mine = tmp_path / "mine.yaml"
    mine.write_text(SITE)
    here, there = (
        resolve(Request(*("llama3.1-8b", "H100", "fp8", 8, "megatron-core"), site)) for site in ("dgx-h100", str(mine))
    )
    assert there.env["NCCL_NVLS_ENABLE"] == "1"
    assert there.replaced_env == {"NCCL_NVLS_ENABLE": "0"}
    assert here.identity() == there.identity()
    assert here.repeat_key() != there.repeat_key()


PARTS = {
    "mla": Mla(q_lora_rank=8, kv_lora_rank=8, qk_head_dim=8, qk_pos_emb_head_dim=8, v_head_dim=8),
    "mamba": Mamba(pattern="M*", num_heads=8, head_dim=8, state_dim=8, num_groups=8),
    "window": Window(size=8, full_every=2),
    "rope_scaling": RopeScaling(kind="yarn", factor=8, original_positions=8),
}
"""What only some models have."""


def leaves(model: Any, path: tuple[Any, ...] = ()) -> Iterator[Any]:
    for name in type(model).model_fields:
        value = getattr(model, name)
        yield from leaves(value, (*path, name)) if isinstance(value, BaseModel) else [((*path, name), value)]


def changed(model: Any, path: tuple[Any, ...], value: Any) -> Any:
    inner = value if len(path) == 1 else changed(getattr(model, path[0]), path[1:], value)
    return model.model_copy(update={path[0]: inner})


def other(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float)):
        return 2 * value + 1
    if isinstance(value, dict):
        return {**value, "ANOTHER": "1"}
    return (*value, "another") if isinstance(value, tuple) else f"{value or ''}x"


def test_every_field_changes_the_identity_unless_it_is_known_to_be_outside() -> None:
    """Who adds a field decides where it belongs."""
    chosen = ("mixtral-8x7b", "llama3-8b-sft", "llama3-70b-lora", "tiny-llama-learnable", "gpt3-5b")
    specs = [RunSpec.model_validate(case["spec"]) for case in GOLDEN if case["spec"]["recipe"] in chosen]
    specs += [changed(specs[0], ("model", name), part) for name, part in PARTS.items()]
    found: dict[str, bool] = {}
    for spec in specs:
        for path, value in leaves(spec):
            name = ".".join(path)
            if name not in {"model.moe", *(f"model.{part}" for part in PARTS)}:
                moved = changed(spec, path, other(value)).identity() != spec.identity()
                found[name] = found.get(name, False) or moved
    assert {name for name, moved in found.items() if not moved and not name.startswith("cluster.")} == OUTSIDE
    assert not any(moved for name, moved in found.items() if name.startswith("cluster."))


def test_steps_part_runs_and_not_their_steps() -> None:
    short, long = (resolve(Request("tiny-llama-learnable", "CPU", "fp32", 2, overrides=(f"training.steps={n}",)))
                   for n in (5, 9))  # fmt: skip
    assert short.identity() != long.identity()
    assert short.step_identity() == long.step_identity()  # also where the data set is as long as the run


@pytest.mark.parametrize(
    "override",
    [
        "env.NCCL_SOCKET_IFNAME=ib0",
        "env.SOME_DIR=/lustre/me",
        "env.TOKENIZERS_PARALLELISM=on",
        "training.ceilings=true",
        "cluster.container.image=/images/mine.sqsh",
        "cluster.container.image=/images/mine-v2.sqsh",
    ],
)
def test_what_changes_no_speed_changes_no_identity(override: str) -> None:
    assert resolve(Request(*_point(), overrides=(override,))).identity() == resolve(POINT).identity()


def test_a_site_changes_the_identity_only_by_another_release_of_the_image() -> None:
    of = {None: "nemo:25.07", "/a/nemo_25.07.sqsh": "nemo:25.07", "/b/mine.sqsh": "nemo:25.07"}
    of |= {"r.example/x/nemo:25.07": "nemo:25.07", "/a/nvidia+nemo+25.02.sqsh": "nemo:25.02"}
    for image, counted in of.items():
        overrides = (f"cluster.container.image={image}",) if image else ()
        spec = resolve(Request("llama3.1-8b", "H100", "fp8", 8, "nemo2", "dgx-h100", overrides))
        assert canonical(spec)["image"].startswith(counted), image
        assert public_spec(spec).identity() == spec.identity()


def _point() -> tuple[int | str, ...]:
    return POINT.recipe, POINT.gpu, POINT.precision, POINT.num_gpus, POINT.framework, POINT.cluster


@pytest.mark.parametrize(
    ("image", "name"),
    [
        ("nvcr.io/nvidia/nemo:25.07.01", "nemo:25.07.01"),
        ("nvcr.io#nvidia/nemo:25.07.01", "nemo:25.07.01"),
        ("registry.site.example:5000/team/nemo:25.07.01@sha256:ab", "nemo:25.07.01"),
        ("docker://me/nemo@sha256:ab", "nemo:sha256:ab"),
        ("/lustre/me/nvidia+nemo+25.07.01.sqsh", "nemo:25.07.01"),
        ("/lustre/me/nemo_25.07.01.sif", "nemo:25.07.01"),
        ("/images/nemo-25.07.01/", "nemo:25.07.01"),
        ("nvidia+jax+maxtext-2024-12-09.sqsh", "jax:maxtext-2024-12-09"),
        ("/images/train", "train"),
    ],
)
def test_an_image_is_known_by_its_last_name_and_tag(image: str, name: str) -> None:
    assert image_name(image) == image_name(image_name(image)) == name


def test_the_identity_is_stored_in_the_spec_and_in_the_name_of_the_run(tmp_path: Path) -> None:
    spec = resolve(Request("tiny-llama", "CPU", "fp32", 2))
    run = create(tmp_path, spec, render(spec))
    document = json.loads((run.path / "spec.json").read_text())
    assert (document["schema_version"], document["identity"]) == (2, {"version": 1, "hash": spec.identity()})
    assert RunDir(run.path).spec == spec
    assert re.fullmatch(rf"tiny-llama-{spec.identity()}-\d{{8}}T\d{{6}}Z-[0-9a-f]{{4}}", run.run_id)


def test_two_runs_of_one_second_share_no_name_also_where_one_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = resolve(Request("tiny-llama", "CPU", "fp32", 2))
    words = iter(["aaaa", "aaaa", "bbbb"])
    monkeypatch.setattr("secrets.token_hex", lambda size: next(words))
    monkeypatch.setattr("benchrun.clock.now", lambda: 1767268800.0)
    assert [create(tmp_path, spec, {}).run_id[-4:] for _ in range(2)] == ["aaaa", "bbbb"]


def test_every_kept_run_is_called_by_its_identity() -> None:
    for path in map(kept_runs.folder, kept_runs.named()):
        spec = RunSpec.read(path / "spec.json")
        assert re.fullmatch(rf"{re.escape(spec.recipe)}-{spec.identity()}-\d{{8}}T\d{{6}}Z-[0-9a-f]{{4}}", path.name)
        stated = json.loads((path / "spec.json").read_text())["identity"]
        assert stated == {"version": 1, "hash": spec.identity()}, path.name


@pytest.mark.parametrize("case", some(SCHEMA_1, 8), ids=lambda case: case["kept"])
def test_a_spec_of_schema_1_is_read_as_the_same_measurement(
    case: dict[str, dict[str, Any] | str], tmp_path: Path
) -> None:
    path = tmp_path / "spec.json"
    path.write_text(json.dumps(case["spec"]))
    spec, kept = RunSpec.read(path), RunSpec.read(kept_runs.folder(case["kept"]) / "spec.json")
    assert spec.schema_version == 2
    assert spec.identity() == kept.identity()
    assert spec.replaced_env == {"NCCL_NVLS_ENABLE": "0"}  # the cluster and the framework both set it
    assert (spec.env, spec.cluster.env) == (case["spec"]["env"], case["spec"]["cluster"]["env"])
    assert (spec.model, spec.layout, spec.training, spec.data) == (kept.model, kept.layout, kept.training, kept.data)


def test_a_spec_of_a_newer_schema_is_one_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "spec.json"
    path.write_text(json.dumps({**SCHEMA_1[0]["spec"], "schema_version": 3}))
    with pytest.raises(UserError) as error:
        RunSpec.read(path)
    assert (error.value.where, error.value.exit_code) == (str(path), 2)
    assert "is 3" in error.value.message
