"""Bounds on the privacy of single mechanisms, one bound a file.

The theorem behind each and its proof are in docs/mathematics: gaussian.md for `gaussian`; paper.md for `kifer`,
`hockey_stick` and `renyi`; refined.md and pure.md for the files of these names; exact.md and exact_renyi.md for all
that is exact. docs/mathematics/index.md lists all theorems and where each is implemented.
"""
