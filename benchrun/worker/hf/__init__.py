"""Model, data and training loop of `benchrun.worker.huggingface`."""
