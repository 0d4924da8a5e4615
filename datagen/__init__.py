"""Synthetic data for training benchmarks, in the file formats that frameworks read,
made without a download.

``tokens`` writes Megatron indexed data sets, ``sft`` instruction data, ``tokenizer`` a
local tokenizer. The same parameters give the same bytes on every machine, with any
number of workers.
"""

__version__ = "3"
"""Version of the bytes: raise it whenever the same parameters give other bytes."""
