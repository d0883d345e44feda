"""Recompute the corrected last row of table_s1.json with mpmath, without using this package.

Gaussian noise, shift 1, MUSTww with n = 1000, b = 500, m = 400: by Theorem 4 of arXiv 2312.13389,
delta' = sum_j p_j delta_j(eps) with p_j = sum_i Bin(i; b, 1/n) Bin(j; m, i/b). To run it:

    python tests/golden/table_s1_last_row.py
"""

from __future__ import annotations

from mpmath import binomial, exp, mp, mpf, ncdf, nstr

mp.dps = 40
N, B, M, SHIFT = 1000, 500, 400, 1
# Beyond these the law holds less than 1e-20 of mass.
MOST_SLOTS, MOST_COPIES = 16, 60


def law(trials: int, chance: mpf, most: int) -> list[mpf]:
    return [binomial(trials, j) * chance**j * (1 - chance) ** (trials - j) for j in range(most + 1)]


def group_profile(j: int, eps: mpf) -> mpf:
    s = j * mpf(SHIFT)
    return ncdf(s / 2 - eps / s) - exp(eps) * ncdf(-s / 2 - eps / s)


def main() -> None:
    slots = law(B, mpf(1) / N, MOST_SLOTS)
    rows = [law(M, mpf(i) / B, MOST_COPIES) for i in range(MOST_SLOTS + 1)]
    p = [
        sum(w * row[j] for w, row in zip(slots, rows, strict=True)) for j in range(MOST_COPIES + 1)
    ]
    for text in ("0.05", "0.5", "1", "2", "3", "4.5"):
        eps = mpf(text)
        delta = sum(p[j] * group_profile(j, eps) for j in range(1, MOST_COPIES + 1))
        print(text, nstr(delta, 6))
    print("left out:", nstr(1 - sum(p), 2))


if __name__ == "__main__":
    main()
