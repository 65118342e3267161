"""The Bounds page: its computation, its state and its view."""
