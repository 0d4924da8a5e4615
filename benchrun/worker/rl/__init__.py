"""Post-training: GRPO by trl on a model with random weights. It runs inside the job."""
