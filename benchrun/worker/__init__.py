"""The training worker: real training on megatron.core, on GPUs (NCCL) and CPUs (gloo)
by the same code.

Runs inside the job, one process per rank: ``python -m benchrun.worker --spec
spec.json``. Reads only the TrainingSpec.
"""
