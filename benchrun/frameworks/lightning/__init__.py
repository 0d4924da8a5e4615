"""What NeMo 1, NeMo 2 and Megatron-Bridge print through Lightning."""
