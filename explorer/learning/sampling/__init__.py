"""Exact samplers: integers decide every outcome, doubles only sort out the cases that are far from a boundary."""
