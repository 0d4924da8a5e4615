"""The parts of `benchrun.trainer.huggingface`: the model, its data, the training loop."""
