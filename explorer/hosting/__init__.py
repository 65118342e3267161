"""The explorer for many: `python -m explorer host`, a server per core and one pool of workers, behind a proxy."""
