"""What became of what distrf says of itself, beside its peers."""

from __future__ import annotations

from benchmarks.benchmark import Claim, Record, Verdict, pm, where
from benchmarks.peers.shown import (
    PARTNERS,
    better,
    failed,
    finished,
    margin,
    one,
    quicker,
    seconds,
    sizes,
    time,
)

RIDGE, SGD = "distrf Fourier + ridge", "distrf Fourier + SGD"


def claims(found: dict[str, list[Record]]) -> list[Claim]:
    made: list[Claim] = []
    if "features" in found:
        made += claim_features(found["features"]) + claim_flat(found["features"])
    if "ridge" in found:
        for n in sizes(found["ridge"]):
            made += claim_ridge(where(found["ridge"], n=n), n)
        made += claim_exact(found["ridge"])
    if "million" in found:
        made += claim_million(found["million"])
    if "tables" in found:
        made += claim_tables(found["tables"])
    if "subspace" in found:
        made += claim_subspace(found["subspace"])
    return made


def judged(sign: int, level: Verdict = "holds") -> Verdict:
    """1: ours is ahead; -1: theirs; 0: level."""
    return {1: "holds", 0: level, -1: "does not hold"}[sign]  # type: ignore[return-value]


# ---- features -----------------------------------------------------------------------------------------

#: Why a peer may be quicker at features, or ours level with it.
WHY_FEATURES = {
    "RBFSampler": "both are one matrix product and cosines of n x D numbers in float32",
    "RBFSampler, loop over blocks": "both are one matrix product and cosines of n x D numbers in float32",
    "ParallelPostFit(RBFSampler)": "both are one matrix product and cosines of n x D numbers in float32",
    "Fastfood": "both transform each row by Walsh-Hadamard matrices, theirs in float64",
    "Nystroem": "both compute n x D values of the kernel and multiply them by a D x D matrix: the same products of the same BLAS",
    "PolynomialCountSketch": "both are FFTs of each row",
}


def claim_features(records: list[Record]) -> list[Claim]:
    """Each map beside the same map of a peer, at the most rows that both finished."""
    made = []
    for theirs, why in WHY_FEATURES.items():
        both = [
            n
            for n in sizes(records)
            if one(records, n=n, method=theirs) and one(records, n=n, method=PARTNERS[theirs])
        ]
        if not both:
            continue
        n = both[-1]
        peer, own = where(records, n=n, method=theirs)[0], where(records, n=n, method=PARTNERS[theirs])[0]
        sign, ratio = quicker(own, peer), seconds(peer) / seconds(own)
        wide = " of 2 D columns" if theirs == "Fastfood" else ""
        made.append(
            Claim(
                f"{PARTNERS[theirs]} features take no more time than {theirs} of {peer['peer']}: {n:,} rows",
                f"{time(seconds(peer))} s, error {100 * peer['mean']:.1f} %{wide}",
                f"{time(seconds(own))} s, error {100 * own['mean']:.1f} %: {ratio:.1f} x as quick",
                judged(sign, "holds" if ratio >= 1 else "holds in part"),
                "" if sign > 0 or (sign == 0 and ratio >= 1) else f"level: {why}" if sign == 0 else why,
            )
        )
    return made


def claim_flat(records: list[Record]) -> list[Claim]:
    """Peaks of the two largest sizes."""
    own = finished(where(records, method="distrf Fourier, blocks"))
    if len(own) < 2:
        return []
    (a, b), whole = sorted(own, key=lambda r: r["n"])[-2:], where(records, method="RBFSampler")
    theirs = "; ".join(
        f"{r['n']:,} rows: " + (f"{r['peak'] / 2**20:,.0f} MiB" if "mean" in r else r["error"])
        for r in whole[-2:]
    )
    growth = b["peak"] / a["peak"]
    others = [r for r in finished(where(records, n=b["n"])) if r["peer"] != "distrf"]
    flat = "; ".join(f"{r['method']}: {r['peak'] / 2**20:,.0f} MiB" for r in others)
    return [
        Claim(
            f"The peak does not depend on the number of rows: features of {a['n']:,} and {b['n']:,} rows, in blocks",
            f"RBFSampler, {theirs}" + (f"; {flat}" if flat else ""),
            f"{a['peak'] / 2**20:,.0f} and {b['peak'] / 2**20:,.0f} MiB",
            "holds" if growth < 1.1 else "does not hold",
            "" if growth < 1.1 else "it grew by more than a tenth",
        )
    ]


# ---- ridge --------------------------------------------------------------------------------------------


def said(r: Record) -> str:
    """Accuracy and seconds."""
    scaled = {"mean": 100 * r["mean"], "standard_error": r["standard_error"] and 100 * r["standard_error"]}
    return f"{pm(scaled, 1)} %, {time(seconds(r))} s, {r['peak'] / 2**20:,.0f} MiB"


def claim_ridge(records: list[Record], n: int) -> list[Claim]:
    """The same objective on features of the same kernel: scikit-learn's pipeline and ours."""
    own, peer = one(records, method=RIDGE), one(records, method="RBFSampler + RidgeClassifier")
    if not own or not peer:
        return []
    quick, good = quicker(own, peer), better(own, peer)
    slower = (
        f"the same sums of n D^2 products; ours are added in float64 and a pass costs some tenths of a second to set up, which "
        f"{n:,} rows do not pay back. Starting costs {time(own['start'])} s against {time(peer['start'])} s besides"
    )
    return [
        Claim(
            f"Ridge on D = {own['D']:,} features of {n:,} rows takes no more time than scikit-learn's pipeline",
            said(peer),
            said(own),
            judged(quick),
            "" if quick >= 0 else slower,
        ),
        Claim(
            f"... and is as accurate: {n:,} rows",
            said(peer),
            said(own),
            judged(good),
            "" if good >= 0 else f"beyond {100 * margin(own, peer):.1f} points: {WHY_PAIRED}",
        ),
    ]


WHY_PAIRED = (
    "ours has the cosine and sine of D / 2 frequencies, `RBFSampler` cosines of D frequencies with offsets, and more frequencies fit "
    "more of the target"
)


def claim_exact(records: list[Record]) -> list[Claim]:
    """Exact kernel machines, where they fit."""
    made = []
    for name in ("SVC", "thundersvm.SVC", "KernelRidge"):
        done = finished(where(records, method=name))
        if not done:
            continue
        n = max(r["n"] for r in done)
        peer, own = where(done, n=n)[0], one(records, n=n, method=RIDGE)
        if not own:
            continue
        good, quick = better(own, peer), quicker(own, peer)
        made.append(
            Claim(
                f"Random features have the accuracy of {name} in less time: {n:,} rows",
                said(peer),
                said(own),
                "holds"
                if good >= 0 and quick > 0
                else "holds in part"
                if good >= 0 or quick > 0
                else "does not hold",
                ""
                if good >= 0 and quick > 0
                else "; ".join(
                    (["level in time"] if quick == 0 else ["slower on so few rows"] if quick < 0 else [])
                    + (
                        [f"{own['D']:,} random features stand for a kernel of {n:,} x {n:,} numbers"]
                        if good < 0
                        else []
                    )
                ),
            )
        )
    return made


def claim_million(records: list[Record]) -> list[Claim]:
    """What finishes within the memory, and how good it is."""
    own = one(records, method=RIDGE)
    if not own:
        return []
    n = own["n"]
    late = [f"{r['method']} ({r['peer']}): {r['error']}" for r in failed(records)]
    peers = [r for r in finished(records) if r["peer"] != "distrf"]
    made = [
        Claim(
            f"{n:,} rows on {own['D']:,} features train in 4 GiB",
            "; ".join(late) or "all finish",
            said(own),
            "holds",
        )
    ]
    for r in peers:
        good, quick = better(own, r), quicker(own, r)
        made.append(
            Claim(
                f"Ridge on {n:,} rows is more accurate than {r['method']} of {r['peer']}",
                said(r),
                said(own),
                "holds" if good > 0 else "holds in part" if good == 0 else "does not hold",
                "; ".join(
                    ([] if good > 0 else ["level" if good == 0 else "fewer points"])
                    + (
                        []
                        if quick >= 0
                        else [f"the peer is {seconds(own) / seconds(r):.1f} x as quick: {WHY_SGD}"]
                    )
                ),
            )
        )
    sgd, loop = one(records, method=SGD), one(records, method="RBFSampler + SGDClassifier, loop over blocks")
    if sgd and loop:
        good, quick = better(sgd, loop), quicker(sgd, loop)
        made.append(
            Claim(
                f"SGD on {n:,} rows beside a loop around `partial_fit`: more accurate, in no more time",
                said(loop),
                said(sgd),
                "holds"
                if good > 0 and quick >= 0
                else "holds in part"
                if good > 0 or quick >= 0
                else "does not hold",
                ""
                if good > 0 and quick >= 0
                else "; ".join(
                    ([] if good > 0 else ["no more accurate"])
                    + ([] if quick >= 0 else [f"{seconds(sgd) / seconds(loop):.1f} x the time: {WHY_EPOCHS}"])
                ),
            )
        )
    return made


WHY_EPOCHS = (
    "the loop ends after three epochs whatever it has reached; ours goes on until its loss falls no more"
)
WHY_SGD = "a step of SGD takes D products a row, a Gram matrix D^2"


# ---- tables -------------------------------------------------------------------------------------------


def claim_tables(records: list[Record]) -> list[Claim]:
    """Boosting, table by table: the best of its kind."""
    made = []
    for name in dict.fromkeys(r["set"] for r in records):
        mine = where(records, set=name)
        own, peers = one(mine, method="distrf.train"), [r for r in finished(mine) if r["peer"] != "distrf"]
        if not own or not peers:
            continue
        best = max(peers, key=lambda r: r["mean"])
        good = better(own, best)
        made.append(
            Claim(
                f"{name}: `distrf.train` is as good as the best of boosting",
                f"{best['method']}: {said(best)}",
                said(own),
                judged(good),
                "" if good >= 0 else f"by {100 * (best['mean'] - own['mean']):.1f} points: {WHY_TREES}",
            )
        )
    both = [
        (one(records, set=name, method="distrf.train"), finished(where(records, set=name)))
        for name in dict.fromkeys(r["set"] for r in records)
    ]
    ratios = [
        seconds(own) / min(seconds(r) for r in done if r["peer"] != "distrf")
        for own, done in both
        if own and any(r["peer"] != "distrf" for r in done)
    ]
    if ratios:
        made.append(
            Claim(
                "`distrf.train` takes no more time than boosting, on tables that fit in memory",
                "1 x the quickest",
                f"{min(ratios):.0f} to {max(ratios):.0f} x",
                "holds" if max(ratios) <= 1 else "does not hold",
                "" if max(ratios) <= 1 else WHY_SLOW,
            )
        )
    return made


WHY_TREES = "trees cut single columns, features of a Gaussian kernel are smooth functions of all columns"
WHY_SLOW = (
    "`train` judges units, length scales and columns on a sample, then adds a Gram matrix of thousands of features and factors it "
    "for each penalty and fold; trees sort each column into bins once"
)


# ---- subspaces ----------------------------------------------------------------------------------------


def claim_subspace(records: list[Record]) -> list[Claim]:
    """Singular values, at the same number of iterations and the most rows that both finished."""
    finder, made = "distrf TEFM, finder", []
    pairs = [(finder, name, i) for i in sorted({r["n_iter"] for r in records}) for name in RANDOMIZED]
    pairs.append(("distrf TEFM, gram", "dask-ml TruncatedSVD, tsqr", 2))
    for ours, theirs, n_iter in pairs:
        both = [
            (one(records, n=n, n_iter=n_iter, method=ours), one(records, n=n, n_iter=n_iter, method=theirs))
            for n in sizes(records)
        ]
        done = [(own, peer) for own, peer in both if own and peer]
        if done:
            how = f"{n_iter} iterations" if ours == finder else "exact"
            made.append(claim_values(*done[-1], f"{how}, {done[-1][0]['n']:,} rows"))
    return made


RANDOMIZED = ("dask-ml TruncatedSVD, randomized", "sklearn TruncatedSVD")


def claim_values(own: Record, peer: Record, how: str) -> Claim:
    worse = own["mean"] > max(1.1 * peer["mean"], 1e-4)
    slower = quicker(own, peer) < 0
    why = [f"{seconds(own) / seconds(peer):.1f} x the time"] if slower else []
    why += ["less accurate"] if worse else []
    return Claim(
        f"{own['method']} beside {peer['method']}, {how}: as accurate, in no more time",
        f"error {100 * peer['mean']:.2g} %, {time(seconds(peer))} s",
        f"error {100 * own['mean']:.2g} %, {time(seconds(own))} s",
        "does not hold" if worse else "holds in part" if slower else "holds",
        "; ".join(why),
    )
