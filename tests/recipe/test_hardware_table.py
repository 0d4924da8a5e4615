"""The table of GPUs: a memory in GiB is never the gigabytes of a datasheet that the driver does not show."""

import pytest

from benchrun import hardware


@pytest.mark.parametrize(("name", "driver_mib"), [("B300", 275_040), ("GB300", 284_208)])
def test_memory_is_what_the_driver_reports(name: str, driver_mib: int) -> None:
    gpu = hardware.gpu(name)
    assert gpu.memory_gib == pytest.approx(driver_mib / 1024, abs=0.1)
    assert f"{driver_mib} MiB" in gpu.source
