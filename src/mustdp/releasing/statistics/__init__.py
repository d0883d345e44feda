"""What can be asked for, and how estimates and their errors are read off a release."""
