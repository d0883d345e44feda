"""The paper's tables and figures (arXiv 2312.13389), computed again and judged cell by cell."""
