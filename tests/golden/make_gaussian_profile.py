"""Write gaussian_profile.json: values of the Gaussian privacy profile to 30 digits, by mpmath.

Run from anywhere: ``python tests/golden/make_gaussian_profile.py``. The points are exact doubles,
written with ``float.hex``; the profile Phi(s/2 - eps/s) - e^eps Phi(-s/2 - eps/s) is evaluated
literally, with enough working digits that its cancellation cannot matter.
"""

from __future__ import annotations

import json
from pathlib import Path

import mpmath as mp

DIGITS = 30
SHIFTS = [1e-9, 3e-7, 1e-5, 1e-3, 0.02, 0.25, 0.7, 0.75, 0.8, 1.0, 2.5, 8.0, 10.5, 20.0, 50.0]
SHIFTS += [300.0, 1e4, 1e6, 1e9]
#: Thresholds eps/s - s/2 of the optimal test; 36.9 is where the profile reaches 1e-299.
THRESHOLDS = [-30.0, -8.0, -5.01, -4.99, -1.0, 0.0, 0.5, 3.0, 7.5, 12.0, 20.0, 30.0, 36.9]


def profile(shift: float, epsilon: float) -> mp.mpf:
    size = abs(float(epsilon)) + shift + 1.0 / shift
    with mp.workdps(400 + 3 * int(mp.log10(size) + 1)):
        s, e = mp.mpf(shift), mp.mpf(epsilon)
        upper = mp.erfc((e / s - s / 2) / mp.sqrt(2)) / 2
        lower = mp.erfc((e / s + s / 2) / mp.sqrt(2)) / 2
        return +(upper - mp.exp(e) * lower)


def points() -> list[tuple[float, float]]:
    found = []
    for shift in SHIFTS:
        epsilons = {0.0, shift * 0.3}
        epsilons |= {(t + shift / 2.0) * shift for t in THRESHOLDS}
        found += [(shift, epsilon) for epsilon in sorted(epsilons) if epsilon >= 0.0]
    return found


def main() -> None:
    rows = []
    for shift, epsilon in points():
        value = profile(shift, epsilon)
        rows.append([shift.hex(), epsilon.hex(), mp.nstr(value, DIGITS)])
    origin = {
        "what": "Gaussian profile Phi(s/2 - eps/s) - e^eps Phi(-s/2 - eps/s)",
        "script": "tests/golden/make_gaussian_profile.py",
        "tool": f"mpmath {mp.__version__}",
        "digits": DIGITS,
        "columns": ["shift (hex float)", "epsilon (hex float)", "value"],
    }
    text = json.dumps({"origin": origin, "rows": rows}, indent=1)
    target = Path(__file__).with_name("gaussian_profile.json")
    target.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
