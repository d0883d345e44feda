"""Self-contained HTML pages: text, tables, pictures. Knows nothing of privacy."""

from mustdp.pages.document import Cell, Page

__all__ = ["Cell", "Page"]
