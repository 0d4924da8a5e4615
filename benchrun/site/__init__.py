"""A site: its file, what Slurm reports of it, and the checks before a job waits in a
queue.
"""
