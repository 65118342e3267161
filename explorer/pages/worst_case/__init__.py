"""The Worst case page: its computation, its state and its view."""
