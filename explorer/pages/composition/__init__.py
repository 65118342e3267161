"""The Composition page: its computation, its state and its view."""
