"""Linear models trained privately on multisets of records: numpy, in the style of scikit-learn."""
