"""Model, data and training loop of `benchrun.trainer.huggingface`."""
