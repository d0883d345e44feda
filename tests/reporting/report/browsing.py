"""A page in a real browser, driven from the command line: what it measures and how it looks."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.image import imread
from numpy.typing import NDArray

from mustdp.reporting.pages import POLICY

BROWSER = next(
    (
        path
        for name in ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
        if (path := shutil.which(name))
    ),
    None,
)
_OPTIONS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--hide-scrollbars", "--virtual-time-budget=4000",
)  # fmt: skip

#: Runs inside a copy of the page and tells the frame around it what it found.
_MEASURE = """
<script>
const broken = [];
document.addEventListener("securitypolicyviolation", event => broken.push(event.blockedURI));
window.addEventListener("load", () => setTimeout(() => {
  const boxed = element => element.closest(".box, pre, svg") !== null;
  const outside = [...document.body.querySelectorAll("*")].filter(element => {
    const place = element.getBoundingClientRect();
    return place.width > 0 && !(boxed(element) && !element.matches(".box, pre, svg"))
      && (place.right > innerWidth + 0.5 || place.left < -0.5);
  });
  const size = element => {
    const place = element.getBoundingClientRect();
    return [place.width, place.height];
  };
  parent.postMessage(JSON.stringify({
    width: innerWidth,
    scroll: document.documentElement.scrollWidth,
    outside: outside.map(element => element.outerHTML.slice(0, 80)),
    pictures: [...document.querySelectorAll(".picture")].filter(p => p.offsetParent).map(size),
    boxes: [...document.querySelectorAll(".box")].map(box => [box.clientWidth, box.scrollWidth]),
    requests: performance.getEntriesByType("resource").map(entry => entry.name),
    broken: broken,
  }), "*");
}, 100));
</script>
"""
_FRAME = """<!DOCTYPE html><body style="margin:0">
<script>addEventListener("message", event => document.body.dataset.found = event.data)</script>
<iframe src="page.html" style="width:{width}px;height:900px;border:0"></iframe></body>"""


def measured(page: str, width: int, folder: Path) -> dict[str, Any]:
    """What a copy of the page finds in itself in a window of this width."""
    allowed = POLICY + "; script-src 'unsafe-inline'"
    assert POLICY in page
    copy = page.replace(POLICY, allowed).replace("<title>", f"{_MEASURE}<title>", 1)
    (folder / "page.html").write_text(copy, encoding="utf-8")
    frame = folder / "frame.html"
    frame.write_text(_FRAME.format(width=width), encoding="utf-8")
    shown = _run("--dump-dom", f"--window-size={max(width, 600)},1000", frame.as_uri())
    told = re.search(r'data-found="([^"]*)"', shown)
    assert told, shown[:2000]
    found: dict[str, Any] = json.loads(html.unescape(told[1]))
    return found


def picture_of(page: str, theme: str, folder: Path) -> NDArray[np.float64]:
    """The page in a window of 1280 by 900 pixels as rows of red, green and blue from 0 to 1."""
    written, shot = folder / f"{theme}.html", folder / f"{theme}.png"
    written.write_text(page, encoding="utf-8")
    scheme = {"dark": 0, "light": 1}[theme]
    _run(
        f"--screenshot={shot}", "--window-size=1280,900",
        f"--blink-settings=preferredColorScheme={scheme}", written.as_uri(),
    )  # fmt: skip
    return np.asarray(imread(shot), dtype=np.float64)[..., :3]


def _run(*arguments: str) -> str:
    assert BROWSER is not None
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        done = subprocess.run(
            [BROWSER, *_OPTIONS, f"--user-data-dir={profile}", *arguments],
            capture_output=True, text=True, timeout=240, check=True,
        )  # fmt: skip
    return done.stdout
