"""What a user can do beyond the core: one folder each. The core imports none of them."""
