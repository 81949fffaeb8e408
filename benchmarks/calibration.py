"""Log loss of calibrated ridge and SVM, beside logistic regression and scikit-learn's calibration of the same models.

    python benchmarks/calibration.py DATA [SET ...]

DATA is the folder of the .npz archives. 5,000 training and 5,000 test rows in one seeded order; 512 Fourier features.
"""

from __future__ import annotations

import argparse
import os
import warnings

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.metrics import log_loss

from distrf import RandomFourierFeatures, StreamingRidgeClassifier, StreamingScaler, StreamingSGDClassifier
from distrf.datasets import load_npz

SETS = ("a9a", "ijcnn1", "w8a", "letter", "usps", "dna")
#: Sets whose columns are brought to standard units; the others are flags, or of like units.
SCALED = ("letter", "usps")
ROWS, COMPONENTS = 5_000, 512


def compare(name: str, folder: str) -> list[float]:
    """Log loss of logistic regression, and of ridge and SVM calibrated by us and by scikit-learn."""
    path = os.path.join(folder, f"{name}.npz")
    (X, y), (T, t) = load_npz(path, "train"), load_npz(path, "test")
    rng = np.random.default_rng(0)
    some, tested = rng.permutation(len(y))[:ROWS], rng.permutation(len(t))[:ROWS]
    X, y, T, t = X[some].astype(np.float32), y[some], T[tested].astype(np.float32), t[tested]
    if name in SCALED:
        scaler = StreamingScaler().fit(X)
        X, T = scaler.transform(X), scaler.transform(T)
    map_ = RandomFourierFeatures(n_components=COMPONENTS, random_state=0)
    X, T = map_.fit_transform(X), map_.transform(T)
    models = [StreamingSGDClassifier("multinomial")]
    for model in (StreamingRidgeClassifier(), StreamingSGDClassifier("hinge")):
        models.append(clone(model).set_params(calibrate=True))
        models.append(CalibratedClassifierCV(model, method="sigmoid", ensemble=False))
    return [float(log_loss(t, model.fit(X, y).predict_proba(T))) for model in models]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("sets", nargs="*", default=SETS)
    arguments = parser.parse_args()
    print("| | logistic | ridge | ridge, scikit-learn | SVM | SVM, scikit-learn |\n|---|---|---|---|---|---|")
    for name in arguments.sets:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = compare(name, arguments.data)
        print(f"| {name} | {' | '.join(f'{loss:.3f}' for loss in found)} |", flush=True)


if __name__ == "__main__":
    main()
