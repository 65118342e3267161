"""Objective perturbation: privacy accounting, private linear learners and the pages that show them."""

__version__ = "0.1.0"
