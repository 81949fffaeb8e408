"""What is said of the speed of maps, and what was measured."""

from __future__ import annotations

import itertools
import math

from benchmarks.benchmark import UNKNOWN, Claim, Record, judged, where
from benchmarks.results import has_vbmi

#: {d: times as fast as RBFSampler} of circulant features, D = 8,192, float32, measured before on two kinds of machine.
VBMI, OTHERS = {512: 3.0, 1024: 5.0, 4096: 11.0}, {512: 6.6, 1024: 11.0, 4096: 28.0}
#: A projection is near its floor where it takes at most so many times as long.
NEAR = 1.5
#: Times are alike within this factor.
SAME = 1.05
#: `auto` has the fastest projection where no other is faster by more than this share.
ALIKE = 0.1


def claims(found: dict[str, list[Record]]) -> list[Claim]:
    made: list[Claim] = []
    if "wide" in found:
        made += [*claim_peer(found["wide"]), *claim_dense(found["wide"]), *claim_floor(found["wide"])]
    if "narrow" in found:
        made.append(claim_auto(found["narrow"]))
    if "hadamard" in found:
        made.append(claim_hadamard(found["hadamard"]))
    if "fft" in found:
        made.append(claim_fft(found["fft"]))
    return made


def claim_peer(records: list[Record]) -> list[Claim]:
    """The bar is that of the machine: another where the processor has AVX-512 VBMI."""
    made = []
    for r in where(records, projection="circulant", dtype="float32"):
        d, vbmi = r["d"], has_vbmi(r.get("processor", ""))
        if d not in VBMI:
            continue
        bar = (VBMI if vbmi else OTHERS)[d]
        ratio = r["RBFSampler"] / r["map"]
        double = where(records, projection="circulant", dtype="float64", d=d)
        also = f"; float64 {double[0]['RBFSampler'] / double[0]['map']:.1f} x" if double else ""
        fast = ratio >= bar
        why = "" if fast else (
            f"of {1e3 * r['RBFSampler']:.0f} ms of RBFSampler, the product alone takes {1e3 * product_of(records, d):.0f} ms here; of "
            f"{1e3 * r['map']:.0f} ms of the map, {1e3 * r['floor']:.0f} ms are bare transforms and {1e3 * r['cosines']:.0f} ms cosines"
        )  # fmt: skip
        made.append(
            Claim(
                f"Circulant features against RBFSampler, d = {d:,}, float32",
                f"{bar:g} x, on a processor {'with' if vbmi else 'without'} AVX-512 VBMI",
                f"{ratio:.1f} x{also}",
                "holds" if fast else "holds in part" if ratio > 1 else "does not hold",
                why,
            )
        )
    return made


def claim_dense(records: list[Record]) -> list[Claim]:
    """Dense features are the arithmetic of the peer: a matrix product and cosines."""
    here = where(records, projection="dense")
    if not here:
        return []
    ratios = {(r["d"], r["dtype"]): r["RBFSampler"] / r["map"] for r in here}
    slow = [r for r in here if r["map"] > SAME * r["RBFSampler"]]
    listed = "; ".join(
        f"d = {r['d']:,}, {r['dtype']}: {r['map'] / r['RBFSampler']:.2f} times the time, of which the projection takes "
        f"{r['product'] / r['floor']:.2f} times the bare product of one large matrix"
        for r in slow
    )
    why = (
        f"{listed}. The projection multiplies by one block of weights after the other, the peer by all at once"
        if slow
        else ""
    )
    return [
        Claim(
            f"Dense features take no more time than RBFSampler, within {100 * (SAME - 1):.0f} %",
            "at every size",
            f"{min(ratios.values()):.1f} to {max(ratios.values()):.1f} x as fast, at {len(here) - len(slow)} of {len(here)} sizes",
            judged(len(here) - len(slow), len(here)),
            why,
        )
    ]


def product_of(records: list[Record], d: int) -> float:
    """Seconds of the bare product with dense weights; nan if it was not measured."""
    dense = where(records, projection="dense", dtype="float32", d=d)
    return dense[0]["floor"] if dense else math.nan


#: What structured projections do beside their bare transforms.
_BESIDE = "beside the bare transforms it {}: steps that read and write the column block again"
WHY_BEYOND = {
    "circulant": _BESIDE.format("multiplies by spectra and signs"),
    "alternating_circulant": _BESIDE.format("multiplies by spectra and signs"),
    "fastfood": _BESIDE.format("multiplies by diagonals and permutes"),
    "structured_orthogonal": _BESIDE.format("multiplies by diagonals of signs"),
}


def claim_floor(records: list[Record]) -> list[Claim]:
    made = []
    for projection in dict.fromkeys(r["projection"] for r in records):
        here = where(records, projection=projection)
        worst = max(here, key=lambda r: r["product"] / r["floor"])
        least = min(r["product"] / r["floor"] for r in here)
        most = worst["product"] / worst["floor"]
        near = sum(r["product"] <= NEAR * r["floor"] for r in here)
        why = f"the most at d = {worst['d']:,}, {worst['dtype']}: {WHY_BEYOND.get(projection, UNKNOWN)}"
        made.append(
            Claim(
                f"`{projection}` projects near its floor",
                f"at most {NEAR:g} x",
                f"{least:.2f} to {most:.2f} x, at {near} of {len(here)} sizes",
                judged(near, len(here)),
                "" if near == len(here) else why,
            )
        )
    return made


def claim_auto(records: list[Record]) -> Claim:
    """Whether `projection="auto"` takes the fastest of dense and the structured projection of low variance, in float32."""
    here = where(records, dtype="float32")
    losses = {}
    for r in here:
        best = min(r["dense"], r["structured_orthogonal"])
        losses[r["D"], r["d"]] = r[r["auto"]] / best - 1
    worst = max(losses, key=lambda size: losses[size])
    missed = sum(loss > ALIKE for loss in losses.values())
    near = len(losses) - missed
    return Claim(
        '`projection="auto"` takes the faster of dense and structured orthogonal weights (float32)',
        "everywhere",
        f"at {near} of {len(losses)} sizes, to {100 * ALIKE:.0f} %; the most lost is {100 * losses[worst]:.0f} % "
        f"(D = {worst[0]:,}, d = {worst[1]})",
        judged(near, len(losses)),
        "" if not missed else "one number stands for the cost of a transform at all D",
    )


def crossover(records: list[Record], projection: str) -> str:
    """The columns from which on it is faster than dense weights, between sizes by interpolation in log d and log time."""
    gains = sorted((r["d"], math.log(r["dense"] / r[projection])) for r in records)
    if gains[-1][1] < 0:
        return f"above {gains[-1][0]:,}"
    for (a, low), (b, high) in reversed(list(itertools.pairwise(gains))):
        if low < 0:
            return f"{a * (b / a) ** (low / (low - high)):.0f}"
    return f"below {gains[0][0]}"


def claim_hadamard(records: list[Record]) -> Claim:
    others = ("tile", "rows", "gemm")
    return faster_everywhere(
        "Transforms in vectors of 16 numbers are faster than loops over tiles, loops over rows, and products",
        "p",
        {(r["p"], r["dtype"]): r["vectors"] / max(r[way] for way in others) for r in records},
        " the best of them",
    )


def claim_fft(records: list[Record]) -> Claim:
    return faster_everywhere(
        "Products with circulant matrices by transforms in vectors are faster than by scipy.fft",
        "L",
        {(r["L"], r["dtype"]): r["distrf"] / r["scipy"] for r in records},
    )


def faster_everywhere(said: str, size: str, ratios: dict[tuple[int, str], float], than: str = "") -> Claim:
    """A claim on speeds over those of others, {(size, dtype): ratio}: at least 1 at every size."""
    least = min(ratios, key=lambda place: ratios[place])
    slower = [f"{size} = {place[0]:,}, {place[1]}" for place, ratio in ratios.items() if ratio < 1.0]
    return Claim(
        said,
        "at every size",
        f"{ratios[least]:.1f} to {max(ratios.values()):.1f} x{than}",
        judged(len(ratios) - len(slower), len(ratios)),
        f"not at {'; '.join(slower)}" if slower else "",
    )
