"""Privacy bounds of a mechanism, one a file."""
