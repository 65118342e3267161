"""Privacy loss distributions: discretisation, convolution and composition, with intervals as results."""
