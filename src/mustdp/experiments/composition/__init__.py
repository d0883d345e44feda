"""Many steps: Figure S3, and the authors' own method for one pair of data sets."""
