"""Private learners as scikit-learn estimators, one a file."""
