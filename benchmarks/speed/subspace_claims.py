"""What distrf's pages say of its range finder, judged by its measurements."""

from __future__ import annotations

from benchmarks.benchmark import Claim, Record, where

#: Residual over the least that the pages promise, for n_iter = 1 and 2.
PROMISED = {1: 1.05, 2: 1.02}
#: Times as slow as the quicker solver that the chosen one may be, where costs are near each other.
NEAR = 1.25


def claims(found: dict[str, list[Record]]) -> list[Claim]:
    made: list[Claim] = []
    if "residual" in found:
        made += claims_residual(found["residual"])
    if "sketches" in found:
        made += claims_sketches(found["sketches"])
    if "solvers" in found:
        made.append(claim_solvers(found["solvers"]))
    if "product" in found:
        made.append(claim_product(found["product"]))
    if "workers" in found:
        made.append(claim_workers(found["workers"]))
    if "million" in found:
        made += claims_million(found["million"])
    return made


def claims_residual(records: list[Record]) -> list[Claim]:
    made = []
    for q, bound in PROMISED.items():
        ours = where(records, method="finder", q=q)
        if ours:
            worst = max(ours, key=lambda r: r["float32"])
            ok = worst["float32"] <= bound
            made.append(
                Claim(
                    f"n_iter={q} is within {100 * (bound - 1):.0f} % of the least residual",
                    f"{bound:.2f}",
                    f"{worst['float32']:.3f} at most, float32 ({worst['set']}, l = {worst['l']})",
                    "holds" if ok else "does not hold",
                    "" if ok else "the spectrum falls more slowly here",
                )
            )
    same = max((abs(r["float32"] / r["float64"] - 1) for r in where(records, method="finder")), default=0.0)
    made.append(
        Claim(
            "orthonormalised between products, float32 loses nothing",
            "as float64",
            f"residuals of float32 and float64 differ by {100 * same:.2f} % at most",
            "holds" if same <= 0.01 else "holds in part",
            "" if same <= 0.01 else "the smallest directions are rounding",
        )
    )
    peer = {q: where(records, method="svd_compressed", q=q) for q in (2, 5)}
    pairs = list(zip(peer[2], peer[5], strict=True)) if len(peer[2]) == len(peer[5]) else []
    if pairs:
        worse = sum(five["float32"] > 1.005 * two["float32"] for two, five in pairs)
        last = max(peer[5], key=lambda r: r["float32"])
        made.append(
            Claim(
                "`svd_compressed` of Dask gets worse with more iterations",
                "worse",
                f"from 2 to 5 iterations on {worse} of {len(pairs)} in float32; at worst {last['float32']:.2f} (float64 {last['float64']:.2f}) "
                f"times the least residual ({last['set']}, l = {last['l']})",
                "holds" if worse == len(pairs) else "holds in part" if worse else "does not hold",
                ""
                if worse == len(pairs)
                else "it multiplies the power out, which loses small directions only where the spectrum falls far enough",
            )
        )
    return made


def claims_sketches(records: list[Record]) -> list[Claim]:
    last = max(records, key=lambda r: r["l"])
    quick = {name: last["gaussian fit"] / max(last[f"{name} fit"], 1e-9) for name in ("srht", "sparse")}
    ok = min(quick.values()) > 1
    return [
        Claim(
            "`srht` and `sparse` cost less than `gaussian` beside wide l",
            "less",
            f"l = {last['l']}: a fit with `srht` is {quick['srht']:.2f} times, with `sparse` {quick['sparse']:.2f} times as fast",
            "holds" if ok else "holds in part" if max(quick.values()) > 1 else "does not hold",
            ""
            if ok
            else "the sketch is a matrix product near the peak of the processor, the others are bound by memory",
        )
    ]


def claim_solvers(records: list[Record]) -> Claim:
    slow = [r for r in records if r[r["auto"]] > NEAR * min(r["finder"], r["gram"])]
    worst = max(records, key=lambda r: r[r["auto"]] / max(min(r["finder"], r["gram"]), 1e-9))
    loss = worst[worst["auto"]] / max(min(worst["finder"], worst["gram"]), 1e-9)
    return Claim(
        'solver="auto" takes the cheaper solver',
        "the cheaper",
        f"{len(records) - len(slow)} of {len(records)} within {100 * (NEAR - 1):.0f} % of it; at worst {loss:.2f} times its seconds (D = "
        f"{worst['D']:,}, l = {worst['l']})",
        "holds" if not slow else "holds in part" if len(slow) < len(records) else "does not hold",
        ""
        if not slow
        else "it counts operations, and those of QR and eigenvectors by factors fitted on one machine",
    )


def claim_product(records: list[Record]) -> Claim:
    r = records[-1]
    times = r["pass"] / max(r["bare"], 1e-9)
    return Claim(
        "a pass costs what its arithmetic costs",
        "1.0",
        f"{times:.2f} times a bare loop of NumPy",
        "holds" if times <= 1.1 else "does not hold",
        "" if times <= 1.1 else "tiles, float64 sums and tasks come on top",
    )


def claim_workers(records: list[Record]) -> Claim:
    r = records[-1]
    ok = r["one"] / r["two"] >= 1.6 and r["same bits"]
    return Claim(
        "two workers are faster by 1.6 or more, with the same bits",
        "1.6",
        f"{r['one'] / r['two']:.2f} times on {r['cores']} cores, the same bits: {'yes' if r['same bits'] else 'no'}",
        "holds" if ok else "not measured" if r["cores"] < 2 else "does not hold",
        "" if ok else "workers shared cores",
    )


def claims_million(records: list[Record]) -> list[Claim]:
    over = [
        f"{who}, n_iter={r['q']}"
        for r in records
        for who in ("worker", "client")
        if r[f"{who} GiB"] > r[f"{who} planned"]
    ]
    last = records[-1]
    return [
        Claim(
            f"D = {last['D']:,}: memory stays below the plan",
            "below",
            f"worker {last['worker GiB']:.1f} of {last['worker planned']:.1f} GiB, client {last['client GiB']:.1f} of "
            f"{last['client planned']:.1f} GiB; Q'Q is the identity to {last['orthogonality']:.0e}",
            "holds" if not over else "does not hold",
            "" if not over else f"above it: {', '.join(over)}",
        )
    ]
