"""The table of GPUs: a memory in GiB is never the gigabytes of a datasheet that the driver does not show."""

import pytest

from benchrun import hardware


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
