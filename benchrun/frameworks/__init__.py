"""What trains: one file a framework, and the Megatron configuration that several of them share."""
