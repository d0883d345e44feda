"""What can be measured of how a page looks in a window of chromium: at a width, light or dark.

Contrast is that of WCAG 2.1, success criterion 1.4.3: at least 4.5 for text, whatever its size.
"""

from __future__ import annotations

import time
from importlib import resources
from importlib.util import find_spec
from typing import Any

from mustdp.reporting.pages import Page, environment
from tests.reporting.explorer.driving import missing

#: Every fault as words: sideways scrolling, text that is hard to read, boxes that hide something.
_FAULTS = """
const paint = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
const colors = new Map();
const rgba = color => {
  if (!colors.has(color)) {
    paint.clearRect(0, 0, 1, 1);
    paint.fillStyle = color;
    paint.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = paint.getImageData(0, 0, 1, 1).data;
    colors.set(color, [r, g, b, a / 255]);
  }
  return colors.get(color);
};
const over = (top, under) => under.map((part, k) => top[k] * top[3] + part * (1 - top[3]));
const known = new Map();
const ground = element => {
  if (!element) return [255, 255, 255];
  if (!known.has(element)) {
    const own = rgba(getComputedStyle(element).backgroundColor);
    known.set(element, own[3] < 1 ? over(own, ground(element.parentElement)) : own.slice(0, 3));
  }
  return known.get(element);
};
const light = color => {
  const [r, g, b] = color.map(part => part / 255).map(
    part => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const contrast = (a, b) => {
  const [low, high] = [light(a), light(b)].sort((x, y) => x - y);
  return (high + 0.05) / (low + 0.05);
};
const seen = element => element.checkVisibility({visibilityProperty: true, opacityProperty: true});
const named = element => `<${element.localName} class="${element.getAttribute("class") ?? ""}">`;
const found = new Set();
// A phone shows such a page smaller: innerWidth grows with it.
const wide = Math.max(document.scrollingElement.scrollWidth, innerWidth);
if (wide > document.documentElement.clientWidth) found.add("the page scrolls sideways");
const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (texts.nextNode()) {
  const element = texts.currentNode.parentElement;
  if (!texts.currentNode.data.trim() || element.closest("script, style, noscript, svg")) continue;
  if (!seen(element)) continue;
  const under = ground(element);
  const ratio = contrast(over(rgba(getComputedStyle(element).color), under), under);
  if (ratio < 4.5) found.add(`${named(element)}: contrast ${ratio.toFixed(2)}`);
}
for (const element of document.body.querySelectorAll("*")) {
  if (element.clientWidth < 2 || element.scrollWidth <= element.clientWidth + 1) continue;
  const style = getComputedStyle(element);
  if (style.overflowX === "visible" || style.textOverflow === "ellipsis") continue;
  if (!seen(element)) continue;
  if (!["auto", "scroll"].includes(style.overflowX)) found.add(`${named(element)}: cut off`);
  else {
    if (!style.backgroundAttachment.includes("local")) found.add(`${named(element)}: no shadow`);
    if (element.tabIndex < 0) found.add(`${named(element)}: not reached by the keyboard`);
  }
}
return [...found].sort();
"""


def look(window: Any, width: int, *, dark: bool) -> None:
    """Show pages at this width, and as they are for people who want them light or dark."""
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
    window.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    wanted = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    window.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [wanted]})


def until(window: Any, script: str, seconds: float = 60.0) -> Any:
    """What the script returns, once that is something."""
    end = time.monotonic() + seconds
    while not (found := window.execute_script(script)):
        assert time.monotonic() < end, f"in vain: {script}"
        time.sleep(0.1)
    return found


def faults(window: Any, seconds: float = 10.0) -> list[str]:
    """What is wrong with the page that is shown; its own scripts have some time to mend it."""
    end = time.monotonic() + seconds
    while (found := window.execute_script(_FAULTS)) and time.monotonic() < end:
        time.sleep(0.2)
    return list(found)


def no_axe() -> str:
    """Why accessibility cannot be checked; empty if it can."""
    return missing() or ("" if find_spec("axe_core_python") else "axe-core-python is not installed")


def violations(window: Any) -> list[str]:
    """What axe-core finds against WCAG 2.1, levels A and AA, on the page that is shown."""
    script = resources.files("axe_core_python").joinpath("axe.min.js").read_text(encoding="utf-8")
    window.execute_script(script)
    found = window.execute_async_script(
        "const done = arguments[arguments.length - 1];"
        "const tags = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa'];"
        "axe.run({runOnly: tags, resultTypes: ['violations']}).then(found => done("
        "found.violations.flatMap(one => one.nodes.map(node => `${one.id}: ${node.target}`))))"
    )
    return sorted(found)


def page_of(template: str, **content: Any) -> str:
    """The HTML of a page from the text of a template."""
    macros = 'from "mustdp.reporting/templates/macros.html.j2" import table, figures, figure'
    made = environment().from_string(f"{{% {macros} %}}{template}")
    return Page("Title", template=made, **content).html()
