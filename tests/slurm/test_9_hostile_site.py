"""Slurm's own reader of #SBATCH lines and the ranks' shells hand hostile text on, whole."""

import json
from typing import Any

NASTY = """'"; touch pwned; $(touch pwned) `touch pwned` ${IFS} #x %j \\ \\' ! * & | > pwned"""


def test_hostile_text_stays_text(user: Any) -> None:
    run = user.program(
        "tiny-llama",
        1,
        'printf "%s" "$NASTY" >nasty',
        f"cluster.sbatch_options={json.dumps([f'--comment={NASTY}'])}",
        f"cluster.env.NASTY={json.dumps(NASTY)}",
    )
    job = user.wait(run, 60)["job"]
    path = user.runs / run
    assert (path / "nasty").read_text() == NASTY
    assert f"Comment={NASTY}" in user.slurm("scontrol", "show", "job", job)
    assert not list(path.rglob("pwned"))
