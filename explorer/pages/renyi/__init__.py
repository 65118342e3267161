"""The Rényi page: its computation, its state and its view."""
