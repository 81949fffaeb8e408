"""What must not get worse: `distrf.train` without options, memory of planned jobs, speed beside scikit-learn, as commit aea275b had them.

`benchmarks/results/goldens.json` is never measured anew. A run is compared with it, and ends with 1 where a guard does not hold:

    python -m benchmarks goldens --data DIR --json FILE     # another file: a run that was killed goes on
    python -m benchmarks goldens --parts speed

**Standard error** of a score of a set: the larger of two, both of the frozen run, so that no result widens its own guard:

* that of the mean over the splits: their standard deviation over the root of their number;
* that of the test rows of all splits together: binomial for accuracy, of (k + 2) right rows among n + 4 (Agresti and Coull 1998), which
  is not zero where every row is right; for R^2 that of the mean of e_j = (r_j^2 - (1 - R^2) (t_j - mean t)^2) / var t, to first order; for
  log loss that of the mean loss of a row. Splits count as separate rows, of sets with a customary test part too: both runs predict the
  same rows, so that what is the same in both does not count in their difference.

The guards: no set is worse by more than three standard errors, in score or log loss, and no fit fails that did not; the mean change of
all scores is at least -0.1 point (0.001 of accuracy or R^2).

Log loss is of `predict_proba`, clipped as scikit-learn does, over the test rows whose label was seen in training.
"""

from __future__ import annotations

import math
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from multiprocessing.pool import ThreadPool
from typing import Any

import numpy as np
from sklearn.decomposition import TruncatedSVD
from sklearn.kernel_approximation import RBFSampler
from sklearn.pipeline import make_pipeline

import distrf
from benchmarks import results
from benchmarks.benchmark import MIB, Benchmark, Claim, Part, Record, Run, markdown, one, spread, where
from benchmarks.clocks import in_turn
from benchmarks.peers.job import cpu
from benchmarks.tables.defaults import isolated
from benchmarks.tables.defaults_data import SETS, load
from benchmarks.tables.tables_data import TABLES, table

#: Rows at most, and fewer training rows where columns are many; all 144 fits take less than an hour of processor time together.
TRAIN_ROWS, TEST_ROWS = 10_000, 10_000
FEW_ROWS = {
    "array sector": 2_000, "array newsgroups": 4_000, "array mnist": 5_000, "array ujiindoorloc": 5_000,
    "array blogfeedback": 5_000,
}  # fmt: skip
SPLITS, AT_ONCE = 3, 2
NAMES = (*(f"array {name}" for name in SETS), *(f"table {name}" for name in TABLES))


def problem_of(run: Run, name: str, split: int) -> tuple[Any, ...]:
    """Training rows, targets, test rows, targets."""
    kind, _, which = name.partition(" ")
    found: Any = (load if kind == "array" else table)(which, run.data, split)
    n = FEW_ROWS.get(name, TRAIN_ROWS)
    return found.X[:n], found.y[:n], found.T[:TEST_ROWS], found.t[:TEST_ROWS]


def error_of(losses: np.ndarray) -> float:
    return float(np.std(losses) / math.sqrt(len(losses)))


def fitted(run: Run, name: str, split: int) -> Record:
    """A set once: score, log loss, their standard errors by test rows, and processor seconds of fit and predictions."""
    X, y, T, t = problem_of(run, name, split)
    record: Record = {"rows": len(y), "tested": len(t)}
    began = cpu()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model = distrf.train(X, y, random_state=split)
            predicted = np.asarray(model.predict(T))
            proba = np.asarray(model.predict_proba(T), np.float64) if hasattr(model, "predict_proba") else None
        except Exception as error:
            return record | {"error": f"{type(error).__name__}: {error}"[:300]}
    record["seconds"] = cpu() - began
    if y.dtype.kind == "f":
        squares, apart, spread_ = (t - predicted) ** 2, (t - t.mean()) ** 2, np.var(t)
        score = float(1 - squares.mean() / spread_)
        return record | {"score": score, "score_error": error_of((squares - (1 - score) * apart) / spread_)}
    n, right = len(t), int(np.sum(predicted == t))
    share = (right + 2) / (n + 4)
    record |= {"score": right / n, "score_error": math.sqrt(share * (1 - share) / (n + 4))}
    if proba is not None:
        seen = np.isin(t, model.classes_)
        of_label = proba[seen, np.searchsorted(model.classes_, t[seen])]
        losses = -np.log(np.clip(of_label, np.finfo(float).eps, 1))
        record |= {"log_loss": float(losses.mean()), "log_loss_error": error_of(losses)}
    return record


def quality(run: Run) -> Iterator[Record]:
    """Each fit in a process of its own, two at a time; those that the file has are not run again."""
    names = run.pick(NAMES, ("array wine", "table diabetes"))
    wanted = [{"set": name, "split": split} for split in range(run.pick(SPLITS, 1)) for name in names]
    missing = [what for what in wanted if not run.has(**what)]
    with ThreadPool(AT_ONCE) as pool:
        yield from pool.imap_unordered(lambda what: what | isolated(fitted, run, *what.values()), missing)


# ---- quality beside the frozen run --------------------------------------------------------------------


def frozen(part: str) -> list[Record]:
    """What commit aea275b gave."""
    return results.records(BENCHMARK, results.read(results.FOLDER / "goldens.json")).get(part, [])


def mean(values: Iterable[float]) -> float:
    listed = list(values)
    return math.fsum(listed) / max(1, len(listed))


def change(before: list[Record], after: list[Record], key: str) -> Record:
    """Means of a set over the splits that both runs have, the standard error, by how many it is worse, and how many splits failed."""
    have, now = ({r["split"]: r[key] for r in records if key in r} for records in (before, after))
    old, new = (mean(values[s] for s in have.keys() & now.keys()) for values in (have, now))
    tested = mean(r[f"{key}_error"] ** 2 for r in before if key in r) ** 0.5 / len(have) ** 0.5
    error = max(tested, spread([*have.values()])["standard_error"] or 0.0)
    worse = (new - old if key == "log_loss" else old - new) / max(error, 1e-9)
    failed = len((have.keys() & {r["split"] for r in after}) - now.keys())
    return {"old": old, "new": new, "error": error, "failed": failed, "beyond": bool(failed or worse > 3)}


def changes(records: list[Record], key: str) -> dict[str, Record]:
    """{set: its change}, of the sets whose frozen records have that."""
    before = frozen("quality")
    names = dict.fromkeys(r["set"] for r in before if key in r and one(records, set=r["set"]))
    return {name: change(where(before, set=name), where(records, set=name), key) for name in names}


def show_quality(records: list[Record]) -> str:
    """Each set as frozen and as measured."""
    runs, rows = (frozen("quality"), records), []
    by_key = [changes(records, key) for key in ("score", "log_loss")]
    for name in dict.fromkeys(r["set"] for r in records):
        row, found = [name], [by_set.get(name) for by_set in by_key]
        for f in found:
            shown = f and (f"{f['old']:.4f}", f"{f['new'] - f['old']:+.4f}", f"{3 * f['error']:.4f}")
            row += shown or ("", "", "")
        row += [f"{mean(r['seconds'] for r in where(run, set=name) if 'seconds' in r):.1f}" for run in runs]
        rows.append([*row, "WORSE" if any(f and f["beyond"] for f in found) else ""])
    minutes, now = (math.fsum(r.get("seconds", 0.0) for r in run) / 60 for run in runs)
    said = f"""
Score is accuracy or $R^2$, a mean over splits; a guard is three standard errors; s are processor seconds of fit and predictions,
{minutes:.0f} minutes in all, now {now:.0f}."""
    head = ["set", "score", "change", "guard", "log loss", "change", "guard", "s", "s now", ""]
    return f"{said}\n\n{markdown(head, rows)}"


def claim(said: str, asked: str, ours: str, bad: list[str]) -> Claim:
    return Claim(said, asked, ours, "does not hold" if bad else "holds", ", ".join(bad))


def claims_quality(records: list[Record]) -> list[Claim]:
    scores = changes(records, "score")
    found = [*scores.items(), *((f"{name}, log loss", f) for name, f in changes(records, "log_loss").items())]
    bad = [f"{name} {f['old']:.4f} to {f['new']:.4f}, {f['failed']} failed" for name, f in found if f["beyond"]]
    points = mean(100 * (f["new"] - f["old"]) for f in scores.values())
    ours, less = f"{len(found) - len(bad)} of {len(found)}", ["so"] if points < -0.1 else []
    return [
        claim("No set is worse than it was", "three standard errors", ours, bad),
        claim("Scores are no worse on average", "-0.1 point", f"{points:+.3f} points", less),
    ]


# ---- speed and memory ---------------------------------------------------------------------------------


def pairs(run: Run) -> Iterator[tuple[str, Callable[[], Any], Callable[[], Any]]]:
    """Ours and scikit-learn's, on drawn float32 rows: Table 1 of `scrf_2015` on fewer rows, features into a store, a subspace."""
    from benchmarks.papers.scrf_2015 import GAMMA, feature_map

    D = run.pick(8192, 256)
    for d in run.pick((512, 1024, 2048, 4096), (64,)):
        X = np.random.default_rng(0).uniform(size=(run.pick(2000, 50), d)).astype(np.float32)
        map_ = feature_map("SCRF", d, D, GAMMA / d, 0)
        peer = RBFSampler(gamma=GAMMA / d, n_components=D, random_state=0).fit(X)
        yield f"SCRF, d = {d:,}", partial(map_, X), partial(peer.transform, X)
    X = np.random.default_rng(0).normal(size=(run.pick(20_000, 200), 64)).astype(np.float32)
    ours = distrf.RandomFourierFeatures(gamma=0.01, n_components=D // 4, random_state=0).fit(X)
    peer = RBFSampler(gamma=0.01, n_components=D // 4, random_state=0).fit(X)
    yield "featurize, d = 64", partial(written, ours, X), partial(saved, peer, X)
    base = distrf.RandomFourierFeatures(gamma=0.01, n_components=D // 8, random_state=0)
    ours = distrf.TEFM(base, n_components=16, solver="finder", n_iter=2, random_state=0)
    svd = TruncatedSVD(16, n_iter=2, random_state=0)
    theirs = make_pipeline(RBFSampler(gamma=0.01, n_components=D // 8, random_state=0), svd)
    yield "TEFM, 16 directions", lambda: ours.fit(X), lambda: theirs.fit(X)


def written(ours: Any, X: np.ndarray) -> None:
    with tempfile.TemporaryDirectory() as folder:
        distrf.featurize(ours, X, f"{folder}/ours.zarr")


def saved(peer: Any, X: np.ndarray) -> None:
    with tempfile.TemporaryDirectory() as folder:
        np.save(f"{folder}/theirs.npy", peer.transform(X))


def speed(run: Run) -> Iterator[Record]:
    """The least processor seconds of runs that take turns: what else the machine does only adds."""
    for what, ours, theirs in pairs(run):
        if not run.has(what=what):
            taken = in_turn({"ours": ours, "theirs": theirs}, run.pick(5, 1))
            yield {"what": what, **{name: min(values) for name, values in taken.items()}}


def memory(run: Run) -> Iterator[Record]:
    """Planned and measured bytes of each job of the benchmark `plan`."""
    from benchmarks.planning import plan

    for name, job in plan.JOBS.items():
        if not run.has(what=name) and (name in plan.SMALL or not run.small):
            planned, found = plan.do(plan.small(job) if run.small else job, run.small)
            yield {"what": name, "planned_bytes": planned.memory.peak, "bytes": found["bytes"]}


def value(r: Record) -> float:
    """How many times as fast as scikit-learn; MiB of a worker."""
    return float(r["theirs"] / max(r["ours"], 1e-9) if "ours" in r else r["bytes"] / MIB)


def both(part: str, records: list[Record]) -> list[tuple[str, float | None, float]]:
    """What, frozen, and now. A ratio of speeds is of one kind of processor."""
    alike = [{key: r[key] for key in ("what", "processor") if key in r} for r in records]
    old = [one(frozen(part), **same) for same in alike]
    return [(r["what"], None if o is None else value(o), value(r)) for o, r in zip(old, records, strict=True)]


def show_both(part: str, said: str) -> Callable[[list[Record]], str]:
    def show(records: list[Record]) -> str:
        found = both(part, records)
        rows = [[what, "" if old is None else f"{old:,.2f}", f"{new:,.2f}"] for what, old, new in found]
        return f"{said}\n\n{markdown(['', 'frozen', 'now'], rows)}"

    return show


def claims_both(part: str, records: list[Record], said: str, limit: float) -> list[Claim]:
    known = [(what, old, new) for what, old, new in both(part, records) if old is not None]
    worse = [(what, old, new) for what, old, new in known if (new / old - limit) * (limit - 1) > 0]
    bad = [f"{what} {old:.2f} to {new:.2f}" for what, old, new in worse]
    if not known:
        return [Claim(said, f"{limit} of it", "-", "not measured", "nothing of this processor is frozen")]
    return [claim(said, f"{limit} of it", f"{len(known) - len(bad)} of {len(known)}", bad)]


def claims(found: dict[str, list[Record]]) -> list[Claim]:
    """What became of the guards; of the frozen run itself there is nothing to say."""
    new = {part: records for part, records in found.items() if records != frozen(part)}
    made = claims_quality(new["quality"]) if "quality" in new else []
    if "speed" in new:
        made += claims_both("speed", new["speed"], "Nothing is slower beside scikit-learn than it was", 0.9)
    if "memory" in new:
        below = [r["what"] for r in new["memory"] if r["bytes"] > r["planned_bytes"]]
        made += claims_both("memory", new["memory"], "No job takes more memory than it did", 1.1)
        made.append(claim("No job takes more than its plan", "never", f"{len(below)} jobs", below))
    return made


ABOUT = f"""
What must not get worse: `distrf.train` without options on arrays and tables of other pages ({SPLITS} splits of at most {TRAIN_ROWS:,}
training and {TEST_ROWS:,} test rows), ratios of speed, and memory of planned jobs. The figures are of commit aea275b, and are never
measured anew: the command compares a run with them. `benchmarks/goldens.py` says what counts as worse.
"""
SPEED = "How many times as fast as scikit-learn: processor seconds, the least of runs that take turns."
MEMORY = "MiB of the largest worker, of the jobs of [Plan and measurement](plan.md)."

BENCHMARK = Benchmark(
    "goldens", "Goldens", ABOUT,
    (
        Part("quality", quality, show_quality, resumes=True),
        Part("speed", speed, show_both("speed", SPEED), data=False, resumes=True, by_processor=True),
        Part("memory", memory, show_both("memory", MEMORY), data=False, resumes=True),
    ),
    claims, guard=True,
)  # fmt: skip
