"""The Compare page: its computation, its state and its view."""
