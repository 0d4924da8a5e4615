"""Names of host ranges in which a thread waits for data: annotations, NVTX ranges,
operators and Python functions.
"""

import re

_FORMS = (
    r"(?<!meta)data[ _-]?(load|iter)",  # DataLoader, data_loading, data_iter.__next__
    r"(?<![a-z])(pre)?load_?data(?!base|_?parallel)",  # load_data, load_dataset
    r"(?<![a-z])((pre)?fetch|get|next)_?data(?![a-z_])",  # get_data, _next_data
    # load_batch, get_train_batch, load_next_micro_batch
    r"(?<![a-z])((pre)?(load|fetch)|get|next|wait_for)_?((next|train|valid|micro|mini)_?)*batch(?!_?(size|norm))",
    r"batch[-_ ]generator",
    r"iterator(::)?get_?next",  # TensorFlow and XLA
    r"(^|/)data(?![\w./-])",  # data, train/data; not a folder of that name
)
LOADER = re.compile("|".join(_FORMS), re.I)
PLAIN = "[dbr]at"
"""Part of every name that `LOADER` finds (data, batch, iterator); it is faster to
search for.
"""
