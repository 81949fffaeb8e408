"""A virtual environment for each peer, made the first time that it is needed.

    python -m benchmarks.peers.environments        # make them all, from the network

They lie in the folder that the environment variable DISTRF_BENCHMARKS_CACHE names, or in ~/.cache/distrf-benchmarks.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path

#: peer: what pip installs. Empty: the packages of this Python.
PEERS: dict[str, tuple[str, ...]] = {
    "distrf": (),
    "scikit-learn": (),
    # Its wheels were built for NumPy 1.
    "scikit-learn-extra": ("scikit-learn-extra==0.3.0", "numpy<2", "scikit-learn<1.6"),
    "dask-ml": ("dask-ml==2025.1.0", "dask[array,dataframe]", "distributed"),
    # xgboost without the library for GPUs, which is 300 MB.
    "xgboost": ("xgboost-cpu==3.2.0", "scikit-learn", "dask[array,dataframe]", "distributed"),
    "lightgbm": ("lightgbm==4.7.0", "scikit-learn", "dask[array,dataframe]", "distributed"),
    "thundersvm": ("thundersvm-cpu==0.3.3", "scikit-learn"),
    "snapml": ("snapml==1.17.2", "scikit-learn"),
    "falkon": ("falkon",),
}
#: peer: why it is not even tried.
LEFT_OUT = {
    "pyrfm": "not on PyPI, where the package of that name is another project",
    "xGPR": "its licence allows no commercial use",
    "EigenPro": "not on PyPI",
    "cuML": "needs a GPU",
    "rfflearn": "cosines by NumPy in front of scikit-learn's `LinearSVC` and `LinearRegression`: `RBFSampler` stands for it",
    "river": "its `RBFSampler` makes the features of one row, a dictionary, at a time",
    "vowpalwabbit": "has no random features: linear learners, and a kernel SVM that sees one row after the other",
    "dask-glm": "linear models on Dask arrays, whose solvers make the features anew in each of up to 100 steps",
    "catboost": "boosted trees, of which four are here",
}


class UnavailableError(Exception):
    """A peer that could not be installed."""


def folder() -> Path:
    """Where the environments are."""
    return Path(os.environ.get("DISTRF_BENCHMARKS_CACHE", "~/.cache/distrf-benchmarks")).expanduser()


def python_of(peer: str) -> Path:
    """The Python of a peer.

    Raises UnavailableError with the last line of pip.
    """
    wanted = PEERS[peer]
    if not wanted:
        return Path(sys.executable)
    stamp = hashlib.sha256(repr((wanted, sys.version_info[:2])).encode()).hexdigest()[:8]
    place = folder() / f"{peer}-{stamp}"
    python, ready = place / "bin" / "python", place / "ready"
    if not ready.exists():
        shutil.rmtree(place, ignore_errors=True)
        venv.create(place, with_pip=True)
        command = [python, "-m", "pip", "install", "-q", *wanted]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            shutil.rmtree(place, ignore_errors=True)
            raise UnavailableError(f"pip install {' '.join(wanted)}: {last_error(done.stderr)}")
        ready.touch()
    return python


def installed(peer: str) -> dict[str, str]:
    """{package: version} of what was asked for.

    Raises UnavailableError as `python_of` does.
    """
    names = [re.split(r"[\[<=>]", wanted)[0] for wanted in PEERS[peer]] or [peer]
    text = f"import importlib.metadata as m; print(*map(m.version, {names!r}))"
    done = subprocess.run([python_of(peer), "-c", text], capture_output=True, text=True, check=True)
    return dict(zip(names, done.stdout.split(), strict=True))


def last_error(text: str) -> str:
    """The last line of pip that says ERROR, or the last one."""
    lines = [line for line in text.strip().splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR")]
    return (errors or lines or ["no message"])[-1].strip()[:300]


def main() -> None:
    for peer in PEERS:
        try:
            print(f"{peer}: {python_of(peer)}", flush=True)
        except UnavailableError as error:
            print(f"{peer}: {error}", flush=True)


if __name__ == "__main__":
    main()
