"""python tests/golden.py [MAP ...]: makes golden_models.npz and golden_files.zip anew, and prints by how much each entry changed.

Weights of maps do not change: a map that gives other features than before is refused, and nothing is written, unless it is named. What the
seed draws, and the weights of each projection, stand besides as numbers in the tests of `randomness`, `projections` and `maps`; no command
writes those.
"""

from __future__ import annotations

import io
import math
import shutil
import sys
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import test_golden_files as files
import test_golden_models as models

#: The maps of golden_files.zip whose weights come from the seed.
MAPS = [name for name in files.MODELS if name.startswith(("fourier", "laplace", "binning", "tensor"))]


def entries(path: Path) -> dict[str, np.ndarray]:
    """{entry: array} of an .npz file, or {"model: output": array} of all of an archive that holds some."""
    with zipfile.ZipFile(path) as archive:
        if path.suffix == ".npz":
            return dict(np.load(path))
        made = {Path(name).stem: archive.read(name) for name in archive.namelist() if name.endswith(".npz")}
    return {f"{name}: {key}": v for name, data in made.items() for key, v in np.load(io.BytesIO(data)).items()}


def change(before: np.ndarray | None, now: np.ndarray | None) -> float:
    """The largest difference over the largest magnitude; infinite for another shape or type, and where there is only one of them."""
    if before is None or now is None or before.shape != now.shape or before.dtype != now.dtype:
        return math.inf
    if before.dtype.kind not in "fc":
        return 0.0 if np.array_equal(before, now) else math.inf
    return float(
        np.abs(now - before).max(initial=0) / max(np.abs(before).max(initial=0), np.finfo(before.dtype).tiny)
    )


def refused(changes: dict[str, float], named: list[str]) -> list[str]:
    """Maps that changed by more than another processor does, and were not named."""
    changed = {entry.partition(":")[0] for entry, size in changes.items() if size > files.RTOL["float64"]}
    return [name for name in MAPS if name in changed and name not in named]


def main(named: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for module in (models, files):
            new = Path(folder) / module.FILE.name
            module.write_golden(new)
            before, now = entries(module.FILE), entries(new)
            changes = {entry: change(before.get(entry), now.get(entry)) for entry in sorted(before | now)}
            print("\n".join(f"{size:8.1e}  {entry}" for entry, size in changes.items()))
            if wrong := refused(changes, named):
                raise SystemExit(f"weights of maps do not change, nothing is written: {', '.join(wrong)}")
        for module in (models, files):
            shutil.copy(Path(folder) / module.FILE.name, module.FILE)


if __name__ == "__main__":
    main(sys.argv[1:])
