"""GPUs without a point of their own: one of the hardware table, and one that only the site file describes."""

from pathlib import Path

import pytest

from benchrun import api, hardware
from benchrun.errors import UserError
from benchrun.measure.setting import Setting, setting_of
from benchrun.memory import warning
from benchrun.recipes.resolve import resolve
from benchrun.recipes.select import Request
from benchrun.runspec.spec import TrainingSpec

OWN = ("H100", "H200", "GH200", "B200", "GB200", "B300", "GB300")
LISTED = [name for name in hardware.names() if hardware.gpu(name).launched and hardware.gpu(name).memory_gib >= 80]


def site(folder: Path, gpu: str, *lines: str) -> str:
    path = folder / "site.yaml"
    stated = ["scheduler: slurm", f"gpu: {gpu}", "gpus_per_node: 8", "container: {runtime: pyxis}", *lines]
    path.write_text("\n".join(stated) + "\n")
    return str(path)


@pytest.mark.parametrize("gpu", LISTED)
def test_every_gpu_of_the_table_takes_the_layout_of_one_that_has_points(tmp_path: Path, gpu: str) -> None:
    spec = resolve(Request("llama3.1-8b", precision="bf16", num_gpus=16, cluster=site(tmp_path, gpu)))
    assert spec.gpu == gpu
    if gpu not in OWN:
        assert spec.source is None and spec.derived.startswith("layout and batch of ")
        lender = spec.derived.removeprefix("layout and batch of ").partition(",")[0]
        assert hardware.gpu(lender).memory_gib <= hardware.gpu(gpu).memory_gib


def test_a_gpu_without_fp8_has_no_fp8_point(tmp_path: Path) -> None:
    with pytest.raises(UserError) as error:
        resolve(Request("llama3.1-8b", "A100", "fp8", 16, cluster=site(tmp_path, "A100")))
    assert (error.value.message, error.value.hint) == ("llama3.1-8b has no point with --precision fp8", "legal: bf16")


def test_a_smaller_gpu_than_every_listed_one_borrows_no_layout(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no point with --gpu A100-40GB") as error:
        resolve(Request("llama3.1-8b", "A100-40GB", "bf16", 16, cluster=site(tmp_path, "A100-40GB")))
    assert "40 GiB" in str(error.value.hint)


def test_a_gpu_of_amd_borrows_no_layout(tmp_path: Path) -> None:
    with pytest.raises(UserError) as error:
        resolve(Request("llama3.1-8b", "MI300X", "bf16", 16, cluster=site(tmp_path, "MI300X")))
    assert "read and compared, not launched" in str(error.value.hint)


def test_a_number_of_gpus_that_is_not_listed_names_the_lender(tmp_path: Path) -> None:
    spec = resolve(Request("llama3.1-8b", "A100", "bf16", 48, cluster=site(tmp_path, "A100")))
    assert spec.derived.startswith("layout and batch per GPU of 32 H100, as in: NVIDIA")


class TestBesidePointsOfItsOwn:
    """llama3.1-8b has layouts of Megatron-Bridge for 8 B200, and of every framework for 1 to 128 H200."""

    def derived(self, *point: object, recipe: str = "llama3.1-8b") -> str:
        spec = resolve(Request(recipe, *point), to_launch=False)
        return spec.source or spec.derived

    def test_the_own_layout_comes_first_and_scales_up(self) -> None:
        assert self.derived("B200", "fp8", 8).startswith("NVIDIA-NeMo/Megatron-Bridge")
        assert self.derived("B200", "fp8", 16).startswith("layout and batch per GPU of 8 GPUs, as in: NVIDIA-NeMo")

    @pytest.mark.parametrize("point", [("B200", "fp8", 4), ("B200", "bf16", 8, "nemo2")])
    def test_what_it_lacks_is_borrowed(self, point: tuple[object, ...]) -> None:
        assert self.derived(*point).startswith("layout and batch of H200, as in: ")

    def test_of_the_next_gpu_where_the_closest_has_none(self) -> None:
        assert self.derived("GB300", "bf16", 64, "maxtext", recipe="llama2-70b").startswith("layout and batch of H200")
        other = self.derived("GB300", "bf16", 256, "paxml", recipe="gpt3-175b")
        assert other.startswith("layout and batch of H100")

    def test_a_list_has_what_show_takes(self) -> None:
        rows = api.list_points(("llama3.1-8b",), "GB300")
        for row in rows:
            point = (row["gpu"], row["precision"], row["num_gpus"], row["framework"])
            overrides = (f"gbs={row['gbs']}",)
            spec = resolve(Request("llama3.1-8b", *point, overrides=overrides), to_launch=False)
            assert (spec.mbs, spec.derived and spec.derived.split()[4].strip(",")) == (row["mbs"], row["derived"])
        assert {row["derived"] for row in rows} == {None, "H200"}

    def test_tensor_parallelism_across_small_nodes_has_no_overlap(self) -> None:
        point = ("llama3.1-405b", "GB200", "bf16", 256, "megatron-lm")
        assert not resolve(Request(*point)).training.tp_comm_overlap
        with pytest.raises(UserError, match="tp_comm_overlap works only within a node"):
            resolve(Request(*point, overrides=("training.tp_comm_overlap=true",)))


class TestOwn:
    """A GPU of the site file alone."""

    ROW = "hardware: {memory_gib: 192, peak_bf16_tflops: 1307, peak_fp8_tflops: 2614}"

    def spec(self, folder: Path, row: str = ROW) -> TrainingSpec:
        spec = resolve(Request("llama3.1-8b", precision="fp8", num_gpus=16, cluster=site(folder, "MI250X", row)))
        assert isinstance(spec, TrainingSpec)
        return spec

    def test_is_usable_and_has_an_mfu(self, tmp_path: Path) -> None:
        spec = self.spec(tmp_path)
        assert (spec.gpu, hardware.site_gpu(spec.cluster).memory_gib) == ("MI250X", 192)
        assert [setting_of(spec).peak_tflops(precision) for precision in ("bf16", "fp8")] == [1307, 2614]

    def test_its_memory_is_checked(self, tmp_path: Path) -> None:
        point = {"precision": "bf16", "num_gpus": 16}
        whole = resolve(Request("llama3.1-8b", "H100", **point))
        small = "hardware: {memory_gib: 81, peak_bf16_tflops: 300}"
        spec = resolve(Request("llama3.1-8b", **point, cluster=site(tmp_path, "X1", small)))
        assert (spec.layout, warning(spec)) == (whole.layout, warning(whole))
        crowded = spec.cluster.hardware.model_copy(update={"memory_gib": 40.0})
        tight = spec.cluster.model_copy(update={"hardware": crowded})
        assert "X1 has 40" in warning(spec.model_copy(update={"cluster": tight}))

    def test_its_row_is_read_again_from_spec_json(self, tmp_path: Path) -> None:
        spec = self.spec(tmp_path)
        assert TrainingSpec.model_validate_json(spec.model_dump_json()) == spec

    def test_without_a_row_the_error_says_what_to_write(self, tmp_path: Path) -> None:
        with pytest.raises(UserError, match="no point with --gpu MI250X"):
            self.spec(tmp_path, "")


def test_a_stated_peak_is_of_the_run_s_precision() -> None:
    setting = Setting(gpu="H100", precision="fp8", peak=1500.0)
    assert [setting.peak_tflops(precision) for precision in ("fp8", "bf16")] == [1500.0, 989]


def test_a_site_maps_a_published_image_to_its_file(tmp_path: Path) -> None:
    images = 'container: {runtime: pyxis, images: {"nvcr.io/nvidia/nemo:25.07.01": /images/nemo-25.07.01.sqsh}}'
    path = Path(site(tmp_path, "H100"))
    path.write_text(path.read_text().replace("container: {runtime: pyxis}", images))
    point = ("llama3.1-8b", "H100", "bf16", 16)
    mapped = resolve(Request(*point, framework="nemo2", cluster=str(path)))
    assert (mapped.image, mapped.replaced_image) == ("/images/nemo-25.07.01.sqsh", "nvcr.io/nvidia/nemo:25.07.01")
    other = resolve(Request(*point, framework="nemo1", cluster=str(path)))
    assert (other.image, other.replaced_image) == ("nvcr.io/nvidia/nemo:24.12", None)
    assert mapped.identity() == resolve(Request(*point, framework="nemo2")).identity()


# The table of GPUs: a memory in GiB is never the gigabytes of a datasheet that the driver does not show.


@pytest.mark.parametrize(("name", "driver_mib"), [("B300", 275_040), ("GB300", 284_208)])
def test_memory_is_what_the_driver_reports(name: str, driver_mib: int) -> None:
    gpu = hardware.gpu(name)
    assert gpu.memory_gib == pytest.approx(driver_mib / 1024, abs=0.1)
    assert f"{driver_mib} MiB" in gpu.source


def test_another_power_limit_is_no_slower_memory_alone() -> None:
    assert hardware.slower_twin(hardware.gpu("H100")) is None
    assert hardware.slower_twin(hardware.gpu("H200")).name == "H100"


@pytest.mark.parametrize(
    ("device", "name"),
    [
        ("NVIDIA H20", "H20"),
        ("NVIDIA H800", "H800"),
        ("NVIDIA A100 80GB PCIe", "A100-PCIe"),
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("NVIDIA H100 96GB HBM2e", "H100-96GB"),
        ("NVIDIA A100-SXM4-80GB", "A100"),
        ("NVIDIA L40S", "L40S"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "RTX-PRO-6000"),
        ("NVIDIA GB10", "GB10"),
        ("AMD Instinct MI300X", "MI300X"),
        ("NVIDIA RTX A6000", None),
    ],
)
def test_the_name_of_the_driver_finds_the_row(device: str, name: str | None) -> None:
    assert hardware.name_of(device) == name
