"""Privacy loss distributions: discretised, convolved, composed; answers are intervals."""
