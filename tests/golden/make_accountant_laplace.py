"""Write accountant_laplace.json: the exact profile of k Laplace releases, to 25 digits, by mpmath.

Run from anywhere: ``python tests/golden/make_accountant_laplace.py``. Under P (noise around s) the
loss of one release is s with chance 1/2, -s with chance e^{-s}/2, and has density e^{(l - s)/2}/4
in between. The sum of r losses of the third kind has density (e^{-s/2}/4)^r e^{u/2} V_r(u) with V_r
the piecewise polynomial volume of r numbers in [-s, s] that add up to u (Irwin and Hall). Summing
over how many of the k releases are of each kind leaves integrals of polynomials times exponentials,
done piece by piece by Gauss-Legendre quadrature.
"""

from __future__ import annotations

import json
from pathlib import Path

import mpmath as mp

DIGITS = 25
CASES = [
    (2, 0.3, [0.0, 0.1, 0.3, 0.45, 0.59]),
    (2, 2.0, [0.0, 1.0, 2.0, 3.3, 3.99]),
    (3, 0.1, [0.0, 0.05, 0.1, 0.2, 0.299]),
    (3, 1.0, [0.0, 0.5, 1.0, 2.5, 2.9]),
    (10, 0.25, [0.0, 0.5, 1.0, 1.5, 2.0, 2.4]),
    (10, 1.5, [0.0, 3.0, 8.0, 12.0, 14.5]),
]


def volume(r: int, s: mp.mpf, u: mp.mpf) -> mp.mpf:
    total = mp.mpf(0)
    for i in range(r + 1):
        height = u + r * s - 2 * i * s
        if height > 0:
            total += (-1) ** i * mp.binomial(r, i) * height ** (r - 1)
    return total / mp.factorial(r - 1)


def between(r: int, s: mp.mpf, moved: mp.mpf, epsilon: mp.mpf) -> mp.mpf:
    """The part of delta where r losses lie in between and the others add up to ``moved``."""
    start, stop = max(-r * s, epsilon - moved), r * s
    if start >= stop:
        return mp.mpf(0)
    knots = [
        start,
        *[(2 * i - r) * s for i in range(r + 1) if start < (2 * i - r) * s < stop],
        stop,
    ]
    scale = (mp.exp(-s / 2) / 4) ** r

    def density(u: mp.mpf) -> mp.mpf:
        return mp.exp(u / 2) * volume(r, s, u) * -mp.expm1(epsilon - u - moved)

    return scale * mp.quad(density, knots)


def profile(steps: int, shift: float, epsilon: float) -> mp.mpf:
    s, e = mp.mpf(shift), mp.mpf(epsilon)
    total = mp.mpf(0)
    for up in range(steps + 1):
        for down in range(steps + 1 - up):
            r = steps - up - down
            ways = mp.factorial(steps) / (mp.factorial(up) * mp.factorial(down) * mp.factorial(r))
            chance = ways * mp.mpf(1) / 2 ** (up + down) * mp.exp(-s * down)
            moved = (up - down) * s
            if r:
                total += chance * between(r, s, moved, e)
            elif moved > e:
                total += chance * -mp.expm1(e - moved)
    return total


def main() -> None:
    rows = []
    with mp.workdps(40):
        for steps, shift, epsilons in CASES:
            for epsilon in epsilons:
                value = profile(steps, shift, epsilon)
                rows.append([steps, shift, epsilon, mp.nstr(value, DIGITS)])
                print(rows[-1], flush=True)
    origin = {
        "what": "hockey-stick divergence at e^epsilon of k Laplace releases at distance shift",
        "script": "tests/golden/make_accountant_laplace.py",
        "tool": f"mpmath {mp.__version__}",
        "digits": DIGITS,
        "columns": ["steps", "shift", "epsilon", "delta"],
    }
    text = json.dumps({"origin": origin, "rows": rows}, indent=1)
    Path(__file__).with_name("accountant_laplace.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
