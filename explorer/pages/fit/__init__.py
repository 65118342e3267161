"""The Fit page: its computation, its state and its view."""
