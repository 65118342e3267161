"""The Spectrum page: its computation, its state and its view."""
