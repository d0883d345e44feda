"""A real browser for the explorer: Debian's chromium, driven by selenium."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHROMIUM = next(
    (path for name in ("chromium", "google-chrome") if (path := shutil.which(name))), None
)
DRIVER = shutil.which("chromedriver")


def missing() -> str:
    """Why there is no browser to test with; empty if there is one."""
    if CHROMIUM is None:
        return "no browser: chromium is not installed (Debian: chromium, chromium-driver)"
    if DRIVER is None:
        return "no browser: chromedriver is not installed (Debian: chromium-driver)"
    try:
        import selenium  # noqa: F401
    except ImportError:
        return "no browser: selenium is not installed"
    return ""


@contextmanager
def browser(folder: Path, *, width: int = 1280, dark: bool = False) -> Iterator[Any]:
    """A window of this width that saves what it downloads in the folder."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options: Any = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for word in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                 "--disable-background-networking", f"--user-data-dir={folder / 'profile'}",
                 "--hide-scrollbars", f"--window-size={max(width, 520)},1400"):  # fmt: skip
        options.add_argument(word)
    if dark:
        options.add_argument("--blink-settings=preferredColorScheme=0")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    options.add_experimental_option("prefs", {"download.default_directory": str(folder)})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    try:
        driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": 1400, "deviceScaleFactor": 1, "mobile": width < 600},
        )
        driver.execute_cdp_cmd(
            "Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(folder)}
        )
        yield driver
    finally:
        driver.quit()
