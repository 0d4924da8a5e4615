"""How long a step should take: physics from the operator list, corrected by what published and own runs took.

`workload` says what is predicted, `counting` and `links` count its `work`, `physics` turns counts into seconds in
parts, `residuals` corrects them by similar rows and gives the interval. `rows` reads tables of rows, `fit` fits the
constants.
"""
