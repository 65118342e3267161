"""The GLM bug page: its computation, its state and its view."""
