"""Objective perturbation, seen: privacy accountants, private linear learners and the pages that show them."""
