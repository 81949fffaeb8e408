"""What distrf's pages say of its range finder, judged by its measurements."""

from __future__ import annotations

from benchmarks.benchmark import UNKNOWN, Claim, Record, Verdict, judged, where

#: Residual over the least that the pages promise, for n_iter = 1 and 2.
PROMISED = {1: 1.05, 2: 1.02}
#: By what share residuals in float32 and in float64 may differ and be alike.
ALIKE = 0.01
#: Times as slow as the quicker solver that the chosen one may be, where costs are near each other.
NEAR = 1.25
#: How much faster two workers are to be than one.
FASTER = 1.6


#: A plan of memory is near where it is at most so many times what is taken.
BAR = 1.5
#: Why one is not, {(who, n_iter): reason}: checked.
WHY_LOOSE = {
    (
        "client",
        0,
    ): "client: the plan counts copies of the directions that are sent to workers between passes; with `n_iter=0` none are sent"
}


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
    gaps = [abs(r["float32"] / r["float64"] - 1) for r in where(records, method="finder")]
    if gaps:
        alike = sum(gap <= ALIKE for gap in gaps)
        made.append(
            Claim(
                "orthonormalised between products, float32 loses nothing",
                "as float64",
                f"residuals of float32 and float64 differ by {100 * max(gaps):.2f} % at most",
                judged(alike, len(gaps)),
                "" if alike == len(gaps) else "the smallest directions are rounding",
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
                judged(worse, len(pairs)),
                ""
                if worse == len(pairs)
                else "it multiplies the power out, which loses small directions only where the spectrum falls far enough",
            )
        )
    return made


def claims_sketches(records: list[Record]) -> list[Claim]:
    last = max(records, key=lambda r: r["l"])
    quick = {name: last["gaussian fit"] / max(last[f"{name} fit"], 1e-9) for name in ("srht", "sparse")}
    less = sum(times > 1 for times in quick.values())
    return [
        Claim(
            "`srht` and `sparse` cost less than `gaussian` beside wide l",
            "less",
            f"l = {last['l']}: a fit with `srht` is {quick['srht']:.2f} times, with `sparse` {quick['sparse']:.2f} times as fast",
            judged(less, len(quick)),
            ""
            if less == len(quick)
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
        judged(len(records) - len(slow), len(records)),
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
    quick, shared = r["one"] / r["two"] >= FASTER, r["cores"] < 2
    verdict: Verdict = "does not hold"
    if r["same bits"]:
        verdict = "holds" if quick else "not measured" if shared else "does not hold"
    why = "" if r["same bits"] else f"the bits differ: {UNKNOWN}"
    if not quick:
        slow = "two workers shared one core" if shared else f"slower than {FASTER:g} times: {UNKNOWN}"
        why = "; ".join(text for text in (why, slow) if text)
    return Claim(
        f"two workers are faster by {FASTER:g} or more, with the same bits",
        f"{FASTER:g}",
        f"{r['one'] / r['two']:.2f} times on {r['cores']} cores, the same bits: {'yes' if r['same bits'] else 'no'}",
        verdict,
        why,
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
        claim_loose(records),
        Claim(
            f"D = {last['D']:,}: memory stays below the plan",
            "below",
            f"worker {last['worker GiB']:.1f} of {last['worker planned']:.1f} GiB, client {last['client GiB']:.1f} of "
            f"{last['client planned']:.1f} GiB; Q'Q is the identity to {last['orthogonality']:.0e}",
            "holds" if not over else "does not hold",
            "" if not over else f"above it: {', '.join(over)}",
        ),
    ]


def claim_loose(records: list[Record]) -> Claim:
    """How near the plans of worker and client are."""
    cases = {
        (who, r["q"]): r[f"{who} planned"] / r[f"{who} GiB"] for r in records for who in ("worker", "client")
    }
    beyond = {case: ratio for case, ratio in cases.items() if ratio > BAR}
    listed = ", ".join(f"{who}, `n_iter={q}`: {ratio:.2f}" for (who, q), ratio in beyond.items())
    known = dict.fromkeys(WHY_LOOSE.get(case, f"{case[0]}: {UNKNOWN}") for case in beyond)
    near = len(cases) - len(beyond)
    return Claim(
        f"D = {records[-1]['D']:,}: the plan is at most {BAR:g} times the memory that is taken",
        f"planned / measured at most {BAR:g}",
        f"worker and client: {near} of {len(cases)} cases",
        judged(near, len(cases)),
        f"beyond: {listed}. {'. '.join(known)}" if beyond else "",
    )
