"""What a check of nodes measured -> which nodes are outliers of their fleet, and the list to exclude."""
