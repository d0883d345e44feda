"""Self-contained HTML pages: text, tables, pictures. Knows nothing of privacy."""

from mustdp.pages.document import Cell, Page
from mustdp.pages.files import write_whole

__all__ = ["Cell", "Page", "write_whole"]
