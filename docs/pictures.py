"""The pictures of explorer, report and release on the site: ``python docs/pictures.py`` makes them.

They are started as a user would start them, opened in chromium at the width of a desk and of a
phone, and kept as small WebP files in ``docs/pictures``. With a folder as argument, whole pages are
kept there as PNG instead, light and dark, to be looked at before a release; further pages may
follow the folder. Needs chromium, chromedriver and selenium; takes some minutes.
"""

from __future__ import annotations

import base64
import sys
import tempfile
import time
from pathlib import Path
from threading import Thread
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from mustdp.cli.main import main  # noqa: E402
from mustdp.reporting.explorer import Explorer  # noqa: E402
from tests.reporting.explorer.driving import browser, missing  # noqa: E402

#: Small sizes and a noise that is given: quick, and everything is to be seen.
SIZES = ("-n", "1000", "-b", "100", "-m", "50", "--steps", "20", "--delta", "1e-5")
STATE = "?n=1000&b=100&m=50&steps=20&delta=1e-5&noise=4"
#: Estimates by region of the made-up people of the tutorial.
RELEASE = (
    "release", str(ROOT / "examples" / "people.csv"), "--column", "hours", "--lower", "0",
    "--upper", "80", "--statistic", "mean", "--by", "region", "--groups", "north,south,east,west",
    "--epsilon", "0.5", "--delta", "1e-6",
)  # fmt: skip
WIDE, NARROW = 1280, 390


def shot(window: Any, path: Path, height: int | None) -> None:
    """What the window shows from its top, or all of its page where no height is given."""
    whole = int(window.execute_script("return document.documentElement.scrollHeight"))
    width = int(window.execute_script("return innerWidth"))
    clip = {"x": 0, "y": 0, "width": width, "height": min(height or whole, whole), "scale": 1}
    kind = {"format": "png"} if path.suffix == ".png" else {"format": "webp", "quality": 80}
    found = window.execute_cdp_cmd(
        "Page.captureScreenshot", {**kind, "clip": clip, "captureBeyondViewport": True}
    )
    path.write_bytes(base64.b64decode(found["data"]))


def take(folder: Path, pages: dict[str, str], *, whole: bool) -> None:
    """Every page at both widths: light and dark if whole, else light and the phone's dark."""
    looks = [(width, dark) for width in (WIDE, NARROW) for dark in (False, True)]
    for width, dark in looks if whole else ((WIDE, False), (NARROW, True)):
        with (
            tempfile.TemporaryDirectory() as profile,
            browser(Path(profile), width=width, dark=dark) as window,
        ):
            for name, address in pages.items():
                window.get(address)
                if name == "explorer":
                    settle(window)
                time.sleep(1.0)
                size = f"{width}-{'dark' if dark else 'light'}"
                if whole:
                    shot(window, folder / f"{name}-{size}.png", None)
                else:
                    of = "desk" if width == WIDE else "phone"
                    shot(window, folder / f"{name}-{of}.webp", 1400 if width == WIDE else 1100)


def settle(window: Any) -> None:
    """Wait until the explorer has answered everything and its pictures are there."""
    drawn = "[...document.images].every(one => one.complete && one.naturalWidth > 0)"
    while not window.execute_script(f"return document.body.dataset.ready === 'true' && {drawn}"):
        time.sleep(1.0)


def make(folder: Path, further: list[str], *, whole: bool) -> None:
    """Report, release and explorer, and further pages by their paths."""
    folder.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as made:
        page = Path(made) / "report.html"
        if main(["report", *SIZES, "--noise-multiplier", "4", "--out", str(page)]):
            raise SystemExit("the report could not be made")
        table = Path(made) / "release.html"
        if main([*RELEASE, "--report", str(table)]):
            raise SystemExit("the release could not be made")
        explorer = Explorer()
        Thread(target=explorer.serve, daemon=True).start()
        pages = {
            "explorer": explorer.address + STATE,
            "report": page.as_uri(),
            "release": table.as_uri(),
        }
        pages |= {Path(one).stem: Path(one).resolve().as_uri() for one in further}
        take(folder, pages, whole=whole)
        explorer.close(patience=60.0)


if __name__ == "__main__":
    if missing():
        raise SystemExit(missing())
    words = sys.argv[1:]
    make(Path(words[0]) if words else ROOT / "docs" / "pictures", words[1:], whole=bool(words))
