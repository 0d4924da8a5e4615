"""Lightning: what NeMo 1, NeMo 2 and Megatron-Bridge print through it."""
