"""A recording of what every verb answers on fixed inputs, and the differences between two of them."""
