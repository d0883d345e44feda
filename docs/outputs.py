"""Run the commands in the console blocks of pages, and write down what they print.

``python docs/outputs.py docs/tutorials/account.md ...`` brings pages up to date after a change of
numbers or words; look at the difference before you commit it. The commands of a page are run in
their order, in a folder with ``examples/people.csv``, and ``raw.csv``, the same without a header.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]


def updated(text: str, folder: Path) -> str:
    """A page with the outputs of its commands."""

    def block(found: re.Match[str]) -> str:
        commands = re.findall(r"^\$ mustdp ((?:.* \\\n)*.*)$", found[1], re.MULTILINE)
        return f"```console\n{''.join(map(answered, commands))}```"

    def answered(shown: str) -> str:
        words = shlex.split(re.sub(r" \\\n +", " ", shown))
        done = subprocess.run(
            [sys.executable, "-m", "mustdp.cli.main", *words],
            cwd=folder, capture_output=True, encoding="utf-8", check=False,
        )  # fmt: skip
        printed = f"{done.stdout}{done.stderr}".replace(str(folder.resolve()), "/home/you")
        return f"$ mustdp {shown}\n{printed}"

    return re.sub(r"```console\n(.*?)```", block, text, flags=re.DOTALL)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        with tempfile.TemporaryDirectory() as folder:
            people = shutil.copy(ROOT / "examples" / "people.csv", folder)
            records = Path(people).read_text(encoding="utf-8").partition("\n")[2]
            (Path(folder) / "raw.csv").write_text(records, encoding="utf-8")
            page = Path(name)
            text = updated(page.read_text(encoding="utf-8"), Path(folder))
            page.write_text(text, encoding="utf-8")
