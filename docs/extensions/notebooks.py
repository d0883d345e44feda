"""Notebooks as pages: text as it is, code in blocks. The tests run them; nothing is run here."""

from __future__ import annotations

import json
from typing import Any, ClassVar

from docutils import nodes
from myst_parser.parsers.sphinx_ import MystParser
from sphinx.application import Sphinx


class NotebookParser(MystParser):  # type: ignore[misc]
    """Reads a notebook as the Markdown page that it amounts to."""

    supported: ClassVar[tuple[str, ...]] = ("notebook",)

    def parse(self, inputstring: str, document: nodes.document) -> None:
        """Cell by cell."""
        super().parse("\n\n".join(map(_page, json.loads(inputstring)["cells"])), document)


def _page(cell: dict[str, Any]) -> str:
    text = "".join(cell["source"])
    return text if cell["cell_type"] == "markdown" else f"```python\n{text}\n```"


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    app.add_source_suffix(".ipynb", "notebook")
    app.add_source_parser(NotebookParser)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
