"""Traces of GPU runs (Kineto, Nsight Systems) -> a fingerprint: where the time of each
rank goes.
"""
