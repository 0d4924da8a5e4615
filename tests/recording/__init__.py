"""A recording of what every verb answers on fixed inputs; what differs between two of them."""
