"""Explanations of a step's time: from the GPU's peak to the measurement, causes,
advice.
"""
