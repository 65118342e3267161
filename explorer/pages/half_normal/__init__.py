"""The Half-normal page: its computation, its state and its view."""
