"""A command, an image or a mount that is not there ends a run under its right name, in every runtime."""

from typing import Any

import pytest
from selection import chosen, some

from .conftest import DIR
from .runtimes import RUNTIMES, settings, start

WRONG = {
    "python": ("launch_failed", "cluster.python=/opt/no-such-python"),
    "image": ("image_missing", f"cluster.container.image={DIR}/no-such-image"),
    "mount": ("launch_failed", f"cluster.container.mounts=[{DIR}/no-such-directory:/mnt]"),
    "option": ("launch_failed", "cluster.container.options=[--no-such-option]"),
}


@pytest.fixture(scope="module")
def runs(user: Any, request: pytest.FixtureRequest) -> Any:
    """Run ids by runtime and by what is wrong: all are submitted at once."""
    runtimes = chosen(request, "runtime")
    for runtime in runtimes:
        start(runtime)
    return {
        (runtime, wrong): user.launch("tiny-llama", 1, "cluster.exclude=n3", *settings(runtime, DIR), change)
        for runtime in runtimes
        for wrong, (_, change) in WRONG.items()
    }


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("runtime", some(RUNTIMES, 1))
def test_it_is_named_with_its_line(user: Any, runs: Any, runtime: Any, wrong: Any) -> None:
    row = user.wait(runs[runtime, wrong], 120)
    ending, _ = WRONG[wrong]
    log = (user.runs / runs[runtime, wrong] / "stderr.log").read_text()
    assert row["state"] == ending, log
    assert any(line.startswith((f"{ending}: ", "mount_failed: ")) for line in row["evidence"])


def test_a_cluster_without_pyxis(user: Any) -> None:
    """The plugin that stands in for it is taken away: srun knows no option of it."""
    plugins = DIR / "etc/plugstack.conf"
    plugins.unlink(missing_ok=True)
    run = user.launch("tiny-llama", 1, "cluster.exclude=n3", *settings("pyxis", DIR))
    row = user.wait(run, 60)
    assert row["state"] == "launch_failed"
    assert "--container-image" in " ".join(row["evidence"])
