"""A container that does not start is named from its runtime's own words. "(here)": printed by that program in the test
cluster; the others stand in the program's source or in reports of its users."""

from pathlib import Path

import pytest

from benchrun.frameworks.logs import parse_log

IMAGE, MOUNT, LAUNCH = "image_missing", "mount_failed", "launch_failed"
WORDS = [
    # srun, slurmstepd and the rank's own shell (here)
    ("srun: unrecognized option '--container-image=/x'", LAUNCH),
    ("srun: error: Invalid MPI type 'nosuch', --mpi=list for acceptable types", LAUNCH),
    ("srun: error: Plug-in initialization failed", LAUNCH),
    ("slurmstepd-n1: error: execve(): nopython9: No such file or directory", LAUNCH),
    ("rank: line 1: exec: nopython9: not found", LAUNCH),
    ("rank: line 3: /no/such/python: No such file or directory", LAUNCH),
    ("1: rank: line 1: exec: /etc: cannot execute: Is a directory", LAUNCH),
    ("/usr/bin/env: \u2018nopython9\u2019: No such file or directory", LAUNCH),
    ("env: 'ch-run': No such file or directory", LAUNCH),
    ("contained.sh: line 17: docker: command not found", LAUNCH),
    ("srun: error: Unable to create step for job 7: Invalid generic resource (gres) specification", LAUNCH),
    ("srun: error: Task launch for StepId=7.1 failed on node n1: Invalid job credential", LAUNCH),
    ("srun: fatal: SLURM_MEM_PER_CPU, SLURM_MEM_PER_GPU, and SLURM_MEM_PER_NODE are mutually exclusive.", LAUNCH),
    ("srun: error: Unable to allocate resources: Invalid partition name specified", LAUNCH),
    # pyxis and enroot
    ("slurmstepd: error: pyxis:     [ERROR] No such file or directory: /images/x.sqsh", IMAGE),
    ("slurmstepd: error: pyxis:     [ERROR] Invalid image format: /images/x.sqsh", IMAGE),
    ("slurmstepd: error: pyxis:     [ERROR] Invalid image reference: docker://a b", IMAGE),
    ("slurmstepd: error: pyxis:     [ERROR] URL https://nvcr.io/v2/x returned error code: 401 Unauthorized", IMAGE),
    ("slurmstepd: error: pyxis: failed to import docker image: nvcr.io#x/y", IMAGE),
    ("slurmstepd: error: pyxis: failed to create container filesystem for image: x", IMAGE),
    ("slurmstepd: error: pyxis: --container-mounts: source path does not exist: /none", MOUNT),
    ("srun: error: pyxis: --container-mounts: invalid format: :/workspace", MOUNT),
    ("slurmstepd: error: pyxis:     enroot-mount: failed to mount: /data at /tmp/x: Permission denied", MOUNT),
    ("slurmstepd: error: pyxis:     enroot-switchroot: failed to execute: /bin/bash: No such file", LAUNCH),
    ("slurmstepd: error: pyxis: couldn't start container", LAUNCH),
    # charliecloud, all of it (here)
    ("ch-run[82]: error: can't stat: nosuchimage: No such file or directory (ch_core.c:255 2)", IMAGE),
    ("ch-run[81]: error: unknown image type: /etc/hosts (ch_core.c:278)", IMAGE),
    ("ch-run[81]: error: can't bind: source not found: /nosuch (ch_core.c:104)", MOUNT),
    ("ch-run[8]: error: can't mkdir: /images/x/nosuch: Read-only file system (ch_misc.c:409 30)", MOUNT),
    ("ch-run[81]: error: can't execve(2): nopython9: No such file or directory (ch_core.c:410 2)", LAUNCH),
    ("ch-run[8]: error: can't cd to /nosuch: No such file or directory (ch_core.c:404 2)", LAUNCH),
    ("ch-run: unrecognized option '--nosuch'", LAUNCH),
    # apptainer and singularity
    ("FATAL:   could not open image /images/x.sif: failed to retrieve path for /images/x.sif: no such file", IMAGE),
    ("FATAL:   could not open image /images/x.sif: image format not recognized", IMAGE),
    ("FATAL:   could not open image /images/x.sif: permission denied", IMAGE),
    ("FATAL:   Unable to handle docker://x/y uri: unauthorized: authentication required", IMAGE),
    ("FATAL:   while extracting x.sif: root filesystem extraction failed: extract command failed", IMAGE),
    ("FATAL:   container creation failed: mount /a->/b error: while mounting /a: destination /b doesn't exist", MOUNT),
    ("FATAL:   container creation failed: open /etc/resolv.conf: no such file or directory", LAUNCH),
    ('FATAL:   "nopython9": executable file not found in $PATH', LAUNCH),
    ('Error for command "exec": unknown flag: --nosuch', LAUNCH),
    # podman, most of it (here)
    ("Error: initializing source docker://localhost/nope:1: pinging container registry localhost", IMAGE),
    ("Error: invalid reference format", IMAGE),
    ("Error: localhost/nope:1: image not known", IMAGE),
    ('Error: short-name "x" did not resolve to an alias and no unqualified-search registries are defined', IMAGE),
    ("Error: writing blob: storing blob to file: no space left on device", "disk_full"),
    ('Error: writing blob: adding layer with blob "sha256:1": potentially insufficient UIDs or GIDs available', IMAGE),
    ("Error: statfs /nonexist: no such file or directory", MOUNT),
    ('Error: runc: runc create failed: exec: "x": executable file not found in $PATH: OCI runtime attempted', LAUNCH),
    ('Error: runc: runc create failed: exec: "/etc": permission denied: OCI permission denied', LAUNCH),
    ("Error: OCI runtime error: crun: cgroups in hybrid mode not supported", LAUNCH),
    ("Error: setting up CDI devices: unresolvable CDI devices nvidia.com/gpu=all", LAUNCH),
    ("Error: unknown flag: --nosuch", LAUNCH),
    # docker (here, but for those that need a registry or a GPU)
    ('docker: Error response from daemon: Get "http://localhost/v2/": dial tcp: connection refused', IMAGE),
    ("docker: Error response from daemon: pull access denied for x, repository does not exist", IMAGE),
    ("docker: Error response from daemon: denied: requested access to the resource is denied", IMAGE),
    ("docker: Error response from daemon: manifest for x:1 not found: manifest unknown", IMAGE),
    ("docker: failed to register layer: write /x: no space left on device", "disk_full"),
    ("docker: invalid reference format: repository name (library/Bad Ref) must be lowercase", IMAGE),
    ("docker: Error response from daemon: invalid mount config: bind source path does not exist: /x", MOUNT),
    ('docker: Error response from daemon: OCI runtime create failed: exec: "x": executable file not found', LAUNCH),
    ('docker: Error response from daemon: could not select device driver "" with capabilities: [[gpu]].', LAUNCH),
    ("docker: Cannot connect to the Docker daemon at unix:///x.sock. Is the docker daemon running?", LAUNCH),
    ("permission denied while trying to connect to the Docker daemon socket at unix:///x.sock", LAUNCH),
    ("unknown flag: --nosuch", LAUNCH),
]


def kinds(tmp_path: Path, text: str) -> list[tuple[str, int]]:
    path = tmp_path / "x.log"
    path.write_text(f"one\n{text}\nthree\n")
    return [(problem.kind, problem.line) for problem in parse_log(path).problems]


@pytest.mark.parametrize(("text", "kind"), WORDS, ids=[f"{kind}-{n}" for n, (_, kind) in enumerate(WORDS)])
def test_it_is_named(tmp_path: Path, text: str, kind: str) -> None:
    assert kinds(tmp_path, text) == [(kind, 2)]


@pytest.mark.parametrize(
    "text",
    [
        "Unable to find image 'nvcr.io/nvidia/nemo:25.07' locally",  # docker, before it pulls it
        'level=warning msg="Failed, retrying in 1s ... (1/3). Error: initializing source docker://x/y"',
        'level=warning msg="Failed, retrying in 1s ... (1/3). Error: writing blob: unexpected EOF"',
        "entrypoint.sh: line 4: nvidia-smi: command not found",
        '  File "/opt/x.py", line 12, in main',
        "env: 'NCCL_DEBUG' is INFO",
        "ls: cannot access 'checkpoints': No such file or directory",
        "cp: cannot stat \u2018x.json\u2019: No such file or directory",
        "make: error: can't mkdir: /cache/x: Permission denied",
    ],
)
def test_what_does_not_keep_it_from_starting_is_not(tmp_path: Path, text: str) -> None:
    assert {kind for kind, _ in kinds(tmp_path, text)} <= {"rank_crash"}  # an error line, where nothing else is
