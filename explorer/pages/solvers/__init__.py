"""The Solvers page: its computation, its state and its view."""
