"""The Calibrate page: its computation, its state and its view."""
