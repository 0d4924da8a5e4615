"""Prediction of a step's time: physics from the operator list, corrected by published
and own runs.

`workload` describes the step, `counting` and `links` count it (`work`), `physics` turns
counts into seconds in parts, `residuals` corrects them by similar rows and gives the
interval. `rows` reads tables of rows, `fit` fits the constants.
"""
