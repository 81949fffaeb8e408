"""What became of what distrf says of itself, beside its peers."""

from __future__ import annotations

from benchmarks.benchmark import UNKNOWN, Claim, Record, Verdict, judged, pm, where
from benchmarks.peers.processes import LIMIT
from benchmarks.peers.reasons import BETTER, LOWER, QUICKER, SOONER, why
from benchmarks.peers.shown import (
    PARTNERS,
    SAME_TIME,
    better,
    failed,
    failure,
    finished,
    margin,
    one,
    quicker,
    seconds,
    sizes,
    time,
)

RIDGE, SGD, SHORT = "distrf Fourier + ridge", "distrf Fourier + SGD", "distrf Fourier + SGD, three epochs"
LOOPS = (
    "RBFSampler + SGDClassifier, loop over blocks",
    "RBFSampler + SGDClassifier(average=True), loop over blocks",
)


def claims(found: dict[str, list[Record]]) -> list[Claim]:
    made: list[Claim] = []
    if "features" in found:
        made += [
            *claim_features(found["features"]),
            *claim_flat(found["features"]),
            *claim_light(found["features"]),
        ]
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


def of_sign(sign: int) -> Verdict:
    """1: ours is ahead; 0: level, which is enough everywhere; -1: theirs."""
    return "holds" if sign >= 0 else "does not hold"


def both_of(good: bool, other: bool) -> Verdict:
    """Of a claim of two halves."""
    return "holds" if good and other else "holds in part" if good or other else "does not hold"


def lost(said: str, theirs: str, own: Record) -> Claim:
    """A claim on a method of ours that found nothing."""
    return Claim(said, theirs, "nothing", "does not hold", f"{own['method']} failed: {failure(own)}")


# ---- features -----------------------------------------------------------------------------------------

#: Why a peer may be quicker at features, or ours level with it.
WHY_FEATURES = {
    "RBFSampler": "both are one matrix product and cosines of n x D numbers in float32",
    "RBFSampler, loop over blocks": "both are one matrix product and cosines of n x D numbers in float32",
    "ParallelPostFit(RBFSampler)": "both are one matrix product and cosines of n x D numbers in float32",
    "Fastfood": "both transform each row by Walsh-Hadamard matrices, theirs in float64",
    "Fastfood(D / 2)": "both transform each row by Walsh-Hadamard matrices, theirs in float64",
    "Nystroem": "both compute n x D values of the kernel and multiply them by a D x D matrix: the same products of the same BLAS",
    "PolynomialCountSketch": "both are FFTs of each row",
}


def claim_features(records: list[Record]) -> list[Claim]:
    """Each map beside the same map of a peer, at the most rows that the peer finished."""
    made = []
    for theirs, known in WHY_FEATURES.items():
        pairs = paired(records, {"method": PARTNERS[theirs]}, {"method": theirs})
        if not pairs:
            continue
        own, peer = pairs[-1]
        wide = " of 2 D columns" if theirs == "Fastfood" else ""
        text = (
            f"{PARTNERS[theirs]} features take no more time than {theirs} of {peer['peer']}: {peer['n']:,} rows"
        )
        theirs_ = f"{time(seconds(peer))} s, error {100 * peer['mean']:.1f} %{wide}"
        if failure(own):
            made.append(lost(text, theirs_, own))
            continue
        sign, ratio = quicker(own, peer), seconds(peer) / seconds(own)
        ours = f"{time(seconds(own))} s, error {100 * own['mean']:.1f} %: {ratio:.1f} x as quick"
        reason = "" if sign > 0 or ratio >= 1 else f"level: {known}" if sign == 0 else known
        made.append(Claim(text, theirs_, ours, of_sign(sign), reason))
    return made


def paired(
    records: list[Record], ours: dict[str, object], theirs: dict[str, object]
) -> list[tuple[Record, Record]]:
    """What ours and a peer have at each number of rows at which the peer finished, and ours was run."""
    both = [(where(records, n=n, **ours), one(records, n=n, **theirs)) for n in sizes(records)]
    return [(own[0], peer) for own, peer in both if own and peer]


def claim_flat(records: list[Record]) -> list[Claim]:
    """Peaks of the two largest sizes."""
    own = where(records, method="distrf Fourier, blocks")
    if len(own) < 2:
        return []
    (a, b), whole = sorted(own, key=lambda r: r["n"])[-2:], where(records, method="RBFSampler")
    theirs = "; ".join(
        f"{r['n']:,} rows: " + (failure(r) or f"{r['peak'] / 2**20:,.0f} MiB") for r in whole[-2:]
    )
    text = (
        f"The peak does not depend on the number of rows: features of {a['n']:,} and {b['n']:,} rows, in blocks"
    )
    if late := failed([a, b]):
        return [lost(text, f"RBFSampler, {theirs}", late[0])]
    growth = b["peak"] / a["peak"]
    others = [r for r in finished(where(records, n=b["n"])) if r["peer"] != "distrf"]
    flat = "; ".join(f"{r['method']}: {r['peak'] / 2**20:,.0f} MiB" for r in others)
    return [
        Claim(
            text,
            f"RBFSampler, {theirs}" + (f"; {flat}" if flat else ""),
            f"{a['peak'] / 2**20:,.0f} and {b['peak'] / 2**20:,.0f} MiB",
            "holds" if growth < 1.1 else "does not hold",
            "" if growth < 1.1 else "it grew by more than a tenth",
        )
    ]


def claim_light(records: list[Record]) -> list[Claim]:
    """What features in blocks cost besides: the start and the peak of the process."""
    loop = "RBFSampler, loop over blocks"
    pairs = paired(records, {"method": PARTNERS[loop]}, {"method": loop})
    if not pairs:
        return []
    own, peer = pairs[-1]
    text = f"{own['method']} starts no later than a loop around RBFSampler, and has no higher peak: {peer['n']:,} rows"
    theirs = f"start {time(peer['start'])} s, peak {peer['peak'] / 2**20:,.0f} MiB"
    if failure(own):
        return [lost(text, theirs, own)]
    late, high = own["start"] / peer["start"], own["peak"] / peer["peak"]
    reasons = [f"{late:.1f} x the seconds before it starts: {why(loop, SOONER)}"] if late > SAME_TIME else []
    reasons += [f"{high:.1f} x the peak: {why(loop, LOWER)}"] if high > SAME_TIME else []
    ours = f"start {time(own['start'])} s, peak {own['peak'] / 2**20:,.0f} MiB"
    return [Claim(text, theirs, ours, both_of(late <= SAME_TIME, high <= SAME_TIME), "; ".join(reasons))]


# ---- ridge --------------------------------------------------------------------------------------------


def said(r: Record) -> str:
    """Accuracy and seconds."""
    scaled = {"mean": 100 * r["mean"], "standard_error": r["standard_error"] and 100 * r["standard_error"]}
    return f"{pm(scaled, 1)} %, {time(seconds(r))} s, {r['peak'] / 2**20:,.0f} MiB"


def claim_ridge(records: list[Record], n: int) -> list[Claim]:
    """The same objective on features of the same kernel: scikit-learn's pipeline and ours."""
    pairs = paired(records, {"method": RIDGE}, {"method": "RBFSampler + RidgeClassifier"})
    if not pairs:
        return []
    own, peer = pairs[0]
    takes = f"Ridge on D = {peer['D']:,} features of {n:,} rows takes no more time than scikit-learn's pipeline"
    as_good = f"... and is as accurate: {n:,} rows"
    if failure(own):
        return [lost(text, said(peer), own) for text in (takes, as_good)]
    quick, good = quicker(own, peer), better(own, peer)
    slower = f"the same sums of n D^2 products; ours are added in float64, and what a pass costs to set up {n:,} rows do not pay back. Starting costs {time(own['start'])} s against {time(peer['start'])} s besides"
    return [
        Claim(takes, said(peer), said(own), of_sign(quick), "" if quick >= 0 else slower),
        Claim(
            as_good,
            said(peer),
            said(own),
            of_sign(good),
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
        pairs = paired(records, {"method": RIDGE}, {"method": name})
        if not pairs:
            continue
        own, peer = pairs[-1]
        n = peer["n"]
        text = f"Random features have the accuracy of {name} in no more time: {n:,} rows"
        if failure(own):
            made.append(lost(text, said(peer), own))
            continue
        good, quick = better(own, peer), quicker(own, peer)
        points, times = 100 * (peer["mean"] - own["mean"]), seconds(peer) / seconds(own)
        reasons = [
            f"{points:.1f} points less accurate, since {own['D']:,} random features stand for a kernel of {n:,} x {n:,} numbers"
            if good < 0
            else "as accurate",
            f"{1 / times:.1f} x the time: {why(name, QUICKER)}"
            if quick < 0
            else f"{times:.1f} x as quick"
            if quick
            else "level in time",
        ]
        verdict = both_of(good >= 0, quick >= 0)
        made.append(
            Claim(text, said(peer), said(own), verdict, "" if verdict == "holds" else "; ".join(reasons))
        )
    return made


#: Epochs of peers that end after so many, whatever they have reached.
EPOCHS = {"RBFSampler + SGDClassifier": "three epochs of", "Incremental(SGDClassifier)": "one epoch of"}


def epochs_of(peer: Record) -> str:
    known = [words for name, words in EPOCHS.items() if peer["method"].startswith(name)]
    loop = "loop" in peer["method"] or peer["method"].startswith("Incremental")
    return f"{known[0]} " if known and loop else ""


def claim_million(records: list[Record]) -> list[Claim]:
    """What finishes within the memory, and how good it is."""
    mine = where(records, method=RIDGE)
    if not mine:
        return []
    own = mine[0]
    made = [claim_memory(own, [r for r in failed(records) if r["peer"] != "distrf"])]
    for peer in [r for r in finished(records) if r["peer"] != "distrf"]:
        text = f"Ridge on {own['n']:,} rows is no less accurate than {epochs_of(peer)}{peer['method']} of {peer['peer']}"
        made.append(lost(text, said(peer), own) if failure(own) else claim_accuracy(text, own, peer))
    loops = [r for r in finished(records) if r["method"] in LOOPS]
    for sgd in where(records, method=SGD) + where(records, method=SHORT) if loops else []:
        made.append(claim_sgd(sgd, max(loops, key=lambda r: r["mean"])))
    return made


def claim_memory(own: Record, late: list[Record]) -> Claim:
    """Ridge within the limit of a process; which peers are not."""
    features = 4 * own["n"] * own["D"]
    beyond = ", more than that" if features > LIMIT else ""
    text = (
        f"A process of {LIMIT / 2**30:.0f} GiB trains ridge on {own['n']:,} rows of {4e-6 * own['n'] * own['d']:,.0f} MB, whose {own['D']:,} "
        f"features would have {1e-9 * features:,.1f} GB{beyond}"
    )
    theirs = "; ".join(f"{r['method']} ({r['peer']}): {failure(r)}" for r in late) or "all finish"
    if failure(own):
        return lost(text, theirs, own)
    ok = own["peak"] <= LIMIT
    return Claim(text, theirs, said(own), "holds" if ok else "does not hold", "" if ok else "its peak is above")


def claim_accuracy(text: str, own: Record, peer: Record) -> Claim:
    """Ridge and a peer that finished, which may be quicker."""
    good, quick = better(own, peer), quicker(own, peer)
    reasons = [] if good > 0 else ["level"] if good == 0 else [f"fewer points: {why(peer['method'], BETTER)}"]
    if quick < 0:
        times = seconds(own) / seconds(peer)
        reasons.append(f"the peer is {times:.1f} x as quick: {why(peer['method'], QUICKER)}")
    return Claim(text, said(peer), said(own), of_sign(good), "; ".join(reasons))


def claim_sgd(sgd: Record, loop: Record) -> Claim:
    """Ours until its loss falls no more, or of as many epochs as the loop; the loop that is most accurate."""
    short = sgd["method"] == SHORT
    jobs = "three epochs of both" if short else "ours until its loss falls no more, the loop three epochs"
    averaged = " with averages" if "average" in loop["method"] else ""
    text = f"SGD on {sgd['n']:,} rows beside a loop around `partial_fit`{averaged}, {jobs}: no less accurate, in no more time"
    if failure(sgd):
        return lost(text, said(loop), sgd)
    good, quick = better(sgd, loop), quicker(sgd, loop)
    reasons = [] if good >= 0 else [f"{100 * (loop['mean'] - sgd['mean']):.1f} points less accurate: {UNKNOWN}"]
    if quick < 0:
        reasons.append(f"{seconds(sgd) / seconds(loop):.1f} x the time: {UNKNOWN if short else WHY_EPOCHS}")
    return Claim(text, said(loop), said(sgd), both_of(good >= 0, quick >= 0), "; ".join(reasons))


WHY_EPOCHS = "another job, the loop ends whatever it has reached"


# ---- tables -------------------------------------------------------------------------------------------


def claim_tables(records: list[Record]) -> list[Claim]:
    """Boosting, table by table: the best of its kind, and the quickest."""
    made, ratios, late = [], [], []
    for name in dict.fromkeys(r["set"] for r in records):
        mine = where(records, set=name)
        ours, peers = where(mine, method="distrf.train"), [r for r in finished(mine) if r["peer"] != "distrf"]
        if not ours or not peers:
            continue
        own, best = ours[0], max(peers, key=lambda r: r["mean"])
        text, theirs = (
            f"{name}: `distrf.train` is as good as the best of boosting",
            f"{best['method']}: {said(best)}",
        )
        if failure(own):
            late.append(own)
            made.append(lost(text, theirs, own))
            continue
        ratios.append(seconds(own) / min(map(seconds, peers)))
        good, points = better(own, best), 100 * (best["mean"] - own["mean"])
        reason = "" if good >= 0 else f"by {points:.1f} points: {why(best['method'], BETTER)}"
        made.append(Claim(text, theirs, said(own), of_sign(good), reason))
    text = "`distrf.train` takes no more time than boosting, on tables that fit in memory"
    if late:
        made.append(lost(text, "1 x the quickest", late[0]))
    elif ratios:
        verdict = judged(sum(ratio <= 1 for ratio in ratios), len(ratios))
        ours_ = f"{min(ratios):.0f} to {max(ratios):.0f} x"
        made.append(Claim(text, "1 x the quickest", ours_, verdict, "" if verdict == "holds" else WHY_SLOW))
    return made


WHY_SLOW = (
    "`train` judges units, length scales and columns on a sample, then adds a Gram matrix of thousands of features and factors it "
    "for each penalty and fold; trees sort each column into bins once"
)


# ---- subspaces ----------------------------------------------------------------------------------------


def claim_subspace(records: list[Record]) -> list[Claim]:
    """Singular values, at the same number of iterations."""
    finder, made = "distrf TEFM, finder", []
    pairs = [(finder, name, i) for i in sorted({r["n_iter"] for r in records}) for name in RANDOMIZED]
    pairs.append(("distrf TEFM, gram", "dask-ml TruncatedSVD, tsqr", 2))
    for ours, theirs, n_iter in pairs:
        both = paired(records, {"n_iter": n_iter, "method": ours}, {"n_iter": n_iter, "method": theirs})
        how = f"{n_iter} iterations" if ours == finder else "exact"
        made += [claim_values(own, peer, f"{how}, {peer['n']:,} rows") for own, peer in both]
    return made


RANDOMIZED = ("dask-ml TruncatedSVD, randomized", "sklearn TruncatedSVD")
#: A relative error of a singular value that is far off.
FAR_OFF = 0.5
#: Why the first of them may be; in float64, or with QR in between, it is not.
DROWNED = (
    "dask-ml leaves `svd_compressed` of Dask to its default, which multiplies the powers out in float32, without orthonormal vectors in "
    "between: small values drown in rounding"
)


def claim_values(own: Record, peer: Record, how: str) -> Claim:
    text = f"{own['method']} beside {peer['method']}, {how}: as accurate, in no more time"
    theirs = f"error {100 * peer['mean']:.2g} %, {time(seconds(peer))} s"
    if failure(own):
        return lost(text, theirs, own)
    worse = own["mean"] > max(1.1 * peer["mean"], 1e-4)
    slower = quicker(own, peer) < 0
    reasons = (
        [f"{seconds(own) / seconds(peer):.1f} x the time: {why(peer['method'], QUICKER)}"] if slower else []
    )
    reasons += (
        ["less accurate"] if worse else ["more accurate"] if slower and peer["mean"] > 1.1 * own["mean"] else []
    )
    if peer["method"] == RANDOMIZED[0] and peer["mean"] > FAR_OFF:
        reasons.append(f"theirs is far off: {DROWNED}")
    ours = f"error {100 * own['mean']:.2g} %, {time(seconds(own))} s"
    verdict: Verdict = "does not hold" if worse else "holds in part" if slower else "holds"
    return Claim(text, theirs, ours, verdict, "; ".join(reasons))
