"""The report as one HTML file, and its plots."""
