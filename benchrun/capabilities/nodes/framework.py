"""The check of nodes: a program of this package that a job runs in the place of a
framework.
"""

from benchrun.frameworks.base import Framework


class NodeCheck(Framework):
    """Measures every node with torch alone, over NCCL or gloo."""

    name = "node-check"
    workload = "nodes"
    tasks = frozenset({"check"})
    precisions = frozenset({"fp32", "bf16"})
    needs_gpu = False
    own_worker = True
    program = "-m benchrun.worker.nodecheck --spec spec.json"
    step_lines = ("benchrun nodes: ",)
    rank_variables = ("SLURMD_NODENAME",)
