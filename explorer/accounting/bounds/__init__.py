"""Bounds on the privacy of single mechanisms, one bound a file."""
