"""Hangs: the rank that the others wait for, by PyTorch's Flight Recorder, stacks and
process states.
"""
