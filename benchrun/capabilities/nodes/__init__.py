"""Check of nodes: measurements -> outliers of the fleet, and the list to exclude."""
