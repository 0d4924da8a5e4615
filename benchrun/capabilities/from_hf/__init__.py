"""A recipe from the configuration of a Hugging Face model."""
