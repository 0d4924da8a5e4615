"""Runs a command, kills every process that it leaves behind in any session, and exits as the command did."""

import os
import signal
import sys
import time
from pathlib import Path

SUBREAPER, DUMPABLE = 36, 4  # options of prctl(2)
PASSED_ON = "HUP", "INT", "QUIT", "USR1", "USR2", "ALRM", "TERM", "XCPU"
command, child = sys.argv[1:], 0


def pass_on(number, _):
    """Slurm may send a signal to this process alone."""
    os.kill(child, number)


def killed(pid):
    """Whether it was a child of this process, by the kernel's record; kills it, or reaps it if it has ended."""
    try:
        if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG) is None:  # it runs
            os.kill(pid, signal.SIGKILL)
    except (ChildProcessError, PermissionError):
        return False
    return True


for name in (
    "PIPE",
    "XFSZ",
    "CHLD",
):  # Python ignores two of them, and its parent may ignore the third
    signal.signal(getattr(signal, "SIG" + name), signal.SIG_DFL)
# From now on every orphan below this process becomes its child: nothing leaves the tree.
try:
    import ctypes

    prctl = ctypes.CDLL(None).prctl
    failed = prctl(SUBREAPER, 1, 0, 0, 0)
except (ImportError, OSError, AttributeError):
    failed = True
if failed:
    sys.stderr.write(
        "benchrun: no child subreaper here: what detaches itself from a rank may outlive it\n"
    )
    os.execvp(command[0], command)
numbers = [getattr(signal, "SIG" + name) for name in PASSED_ON]
before = signal.pthread_sigmask(
    signal.SIG_BLOCK, numbers
)  # a signal waits until there is a child to pass it on to
passed_on = [number for number in numbers if signal.getsignal(number) != signal.SIG_IGN]
for number in passed_on:
    signal.signal(number, pass_on)
child = os.fork()
if not child:
    for number in passed_on:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    try:
        os.execvp(command[0], command)
    finally:
        os._exit(127)
signal.pthread_sigmask(signal.SIG_SETMASK, before)
for ended in iter(lambda: os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT).si_pid, child):
    os.waitpid(ended, 0)
for number in numbers:
    signal.signal(number, signal.SIG_IGN)
status = os.waitpid(child, 0)[1]
until = time.monotonic() + 30  # one that hangs in the kernel must not hide how the command ended
while (
    sum(killed(int(path.name)) for path in Path("/proc").glob("[0-9]*"))
    and time.monotonic() < until
):
    time.sleep(0.01)
if os.WIFSIGNALED(status):
    number = os.WTERMSIG(status)
    prctl(DUMPABLE, 0, 0, 0, 0)  # one core file is enough
    if number != signal.SIGKILL:
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    sys.exit(128 + number)  # process 1 of a container gets no signal of its own
sys.exit(os.WEXITSTATUS(status))
