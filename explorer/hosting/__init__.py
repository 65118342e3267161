"""The explorer for many users: `python -m explorer host`, one server per core and one engine, behind a proxy."""
