"""Capabilities: folders of what a user can do beyond the core. The core imports none of
them.
"""
