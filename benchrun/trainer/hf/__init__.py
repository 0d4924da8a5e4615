"""What `benchrun.trainer.huggingface` is made of: the model, its data, what it prints."""
