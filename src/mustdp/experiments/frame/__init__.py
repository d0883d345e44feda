"""What all experiments stand in: cells and pictures, items, runs that resume, files, the report."""
