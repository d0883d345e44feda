"""What a built page loads, and which of its links lead nowhere."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

#: Attributes that make a browser fetch something, without a click.
_FETCHED = {
    "script": ("src",),
    "link": ("href",),
    "img": ("src", "srcset"),
    "iframe": ("src",),
    "source": ("src", "srcset"),
    "object": ("data",),
}


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.links: list[str] = []
        self.ids: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value for name, value in attrs if value}
        self.fetched += [found[name] for name in _FETCHED.get(tag, ()) if name in found]
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        if "id" in found:
            self.ids.add(found["id"])


def read(page: str) -> _Reader:
    reader = _Reader()
    reader.feed(page)
    return reader


def from_elsewhere(page: str) -> list[str]:
    """What the page fetches from other machines."""
    return [one for one in read(page).fetched if urlsplit(one).netloc]


def broken_links(site: Path) -> list[str]:
    """Links between the pages of a site that lead to no file, or to no place on its page."""
    pages = {
        path.resolve(): read(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")
    }
    broken = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            there = target.exists()
            if there and parts.fragment and target in pages:
                there = unquote(parts.fragment) in pages[target].ids
            if not there:
                broken.append(f"{path.relative_to(site.resolve())}: {link}")
    return broken
