"""What a draw costs: Table 6."""
