"""Figure 1 of Feng et al. (2015), "Random Feature Mapping with Signed Circulant Matrix Projection".

    python benchmarks/scrf.py --out scrf.png

On the paper's synthetic design, rows uniform on [0, 1]^16 and the Gaussian kernel with gamma = 0.25:
(a)-(c) estimates of the kernel of 100 rows against its exact values, D = 512, for dense weights (RKS), Fastfood
and SCRF as printed; (d) the relative error |K - ZZ'|_F / |K|_F of 500 rows against D, mean and spread over
seeds, for these and for the circulant projection with signs on the input. The table says how the error falls:
sqrt(D) times the error is one number where the rate is 1 / sqrt(D).
"""

from __future__ import annotations

import argparse
import json

import numpy as np

from distrf.kernels import Gaussian
from distrf.maps import FourierMap
from distrf.metrics import kernel_error
from distrf.plot import KernelErrorDisplay, KernelScatterDisplay

COLUMNS, GAMMA = 16, 0.25
MAPS = {"RKS": "dense", "Fastfood": "fastfood", "SCRF": "circulant-paper", "circulant": "circulant"}


def feature_map(name: str, components: int, seed: int) -> FourierMap:
    """The map of the design; the paper's features have offsets."""
    scale = Gaussian().length_scale_of_gamma(GAMMA)
    return FourierMap(COLUMNS, components, Gaussian(), scale, MAPS[name], "offset", seed)


def errors(rows: np.ndarray, sizes: list[int], seeds: int) -> list[dict]:
    """One entry for each map, D and seed."""
    return [
        {
            "map": name,
            "n_components": D,
            "error": kernel_error(
                feature_map(name, D, seed), rows, n_rows=len(rows), norms=["frobenius"]
            ).frobenius,
        }
        for name in MAPS
        for D in sizes
        for seed in range(seeds)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--out", default="scrf.png", help="file of the figure")
    parser.add_argument(
        "--sizes", type=int, nargs="+", default=[64, 128, 256, 512, 1024, 2048], help="D of (d)"
    )
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--json", help="write the errors here as well")
    options = parser.parse_args()

    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    rng = np.random.default_rng(0)
    few, many = rng.uniform(size=(100, COLUMNS)), rng.uniform(size=(500, COLUMNS))
    figure, axes = pyplot.subplots(1, 4, figsize=(18, 4.2), layout="constrained")
    for ax, letter, name in zip(axes, "abc", ("RKS", "Fastfood", "SCRF"), strict=False):
        KernelScatterDisplay.from_estimator(feature_map(name, 512, 0), few, ax=ax)
        ax.set_title(f"({letter}) {name}, D = 512")
        ax.set(xlim=(0.2, 1.0), ylim=(0.2, 1.0))
    table = errors(many, options.sizes, options.seeds)
    KernelErrorDisplay.from_table(table, ax=axes[3])
    axes[3].set_title("(d) relative error")
    axes[3].set_ylabel("|K - ZZ'|_F / |K|_F")
    figure.savefig(options.out, dpi=130)

    print("sqrt(D) x relative error, mean over seeds\n" + " " * 10 + "".join(f"{D:>9,}" for D in options.sizes))
    for name in MAPS:
        scaled = [
            np.mean([row["error"] for row in table if (row["map"], row["n_components"]) == (name, D)]) * D**0.5
            for D in options.sizes
        ]
        print(f"{name:<10}" + "".join(f"{value:>9.3f}" for value in scaled))
    print(f"figure written to {options.out}")
    if options.json:
        with open(options.json, "w") as file:
            json.dump(table, file, indent=1)


if __name__ == "__main__":
    main()
