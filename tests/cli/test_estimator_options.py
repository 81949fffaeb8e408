"""Options made of the constructors that have a name: each reaches its parameter, or is refused."""

from __future__ import annotations

import inspect

import pytest

from distrf import RandomFourierFeatures, RandomLaplaceFeatures, TensorSketchFeatures
from distrf.cli.estimator_options import MapOptions, ModelOptions, ScaleOptions, TrainMapOptions, takes_map
from distrf.cli.search_options import SearchedMap
from distrf.cli.signatures import parameters_of, read
from distrf.cli.usage import UsageError
from distrf.parameters import FLAG
from distrf.registry import MAPS, MODELS

MODEL_PARAMETERS = {name for kind in MODELS.values() for name in parameters_of(kind.estimator)}
NEEDED = {"blockwise": {"transformer": "PCA"}}
#: One of these is a value of any parameter, and not its default.
TEXTS = [
    "7", "3", "0.25", "2.5", "1.5", "none", "l1", "offset", "laplacian", "exponential", "reciprocal_semigroup", "quasi", "median",
    "log2", "exact", "kmeans", "srht", "gram", "separate", "hinge", "huber", "circulant", "pegasos", "2,3", "balanced", "constant", "squared",
    "holdout", "cg", "PCA", "true", "false", "gaussian", "1", "sample", "paired", "logistic",
]  # fmt: skip


def other_value(parameter):
    """(text, value) of a parameter that is not its default."""
    for text in TEXTS:
        value = read(text, parameter.rule)
        if parameter.rule.allows(value) and value != parameter.default:
            return text, value
    raise AssertionError(f"no text for {parameter}")


def option_of(name):
    return f"map_{name}" if name in MODEL_PARAMETERS else name


@pytest.mark.parametrize("kind", MAPS)
def test_each_parameter_of_a_map_has_its_option(kind):
    known, given = parameters_of(MAPS[kind]), NEEDED.get(kind, {})
    plain = MapOptions(kind, **given).make().get_params(deep=False)
    assert known.keys() <= {p.removeprefix("map_") for p in MapOptions.options()}
    for name, parameter in known.items():
        if name == "base" and takes_map(MAPS[kind]):
            continue
        text, value = other_value(parameter)
        typed = text if parameter.rule is not FLAG else value
        if kind == "cnm" and name == "phase":
            text = typed = value = "paired"
        made = MapOptions(kind, **given | {option_of(name): typed}).make().get_params(deep=False)
        assert made[name] == value
        changed = {n for n in made if n not in ("base", name) and repr(made[n]) != repr(plain[n])}
        assert not changed


@pytest.mark.parametrize("kind", [*MAPS, "none"])
def test_options_of_another_map_are_refused(kind):
    cls = MAPS.get(kind)
    own = set() if cls is None else set(parameters_of(cls))
    if cls is not None and takes_map(cls):
        own |= set(parameters_of(type(MapOptions(kind).make().base)))
    for option in MapOptions.options():
        name = option.removeprefix("map_")
        if option in ("map", "random_state") or name in own or option.startswith("base_"):
            continue
        with pytest.raises(UsageError, match=r"is for (--map .*; this is --map|other maps; this is)"):
            MapOptions(kind, **NEEDED.get(kind, {}) | {option: "7"}).make()


@pytest.mark.parametrize("kind", MODELS)
def test_each_parameter_of_a_model_has_its_option(kind):
    cls = MODELS[kind].estimator
    plain = ModelOptions(kind).make(seed=3).get_params()
    assert plain == MODELS[kind].make(random_state=3).get_params()
    needs = {
        "epsilon": {"loss": "huber"}, "power_t": {"learning_rate": "inverse_scaling"},
        "validation_fraction": {"early_stopping": True},
    }  # fmt: skip
    for option, parameter in parameters_of(cls).items():
        text, value = other_value(parameter)
        if option == "loss":
            text = value = (MODELS[kind].losses or ("logistic" if MODELS[kind].classifier else "huber",))[-1]
        if option == "learning_rate":
            text = value = "adaptive"
        typed = {option: value if parameter.rule is FLAG else text}
        if option in ("epsilon", "penalty") and MODELS[kind].classifier:
            continue  # no loss of a classifier has an epsilon, and l1 is for the squared loss, no default of theirs
        made = ModelOptions(kind, **typed | needs.get(option, {})).make(seed=3).get_params()
        expected = plain | {parameter.name: value}
        expected |= {n: made[n] for n in needs.get(option, {})}
        assert made == expected
    for other in MODEL_PARAMETERS - set(parameters_of(cls)):
        with pytest.raises(UsageError, match=f"is for --model .*; this is --model {kind}"):
            ModelOptions(kind, **{other: "7"}).make(seed=0)


def test_constructors_have_no_more_than_their_options():
    """What is left out is said in other words: seed, threads, checkpoint."""
    left = {"n_jobs", "random_state", "checkpoint", "checkpoint_every", "resume", "warm_start"}
    for cls in [*MAPS.values(), *(kind.estimator for kind in MODELS.values())]:
        assert set(inspect.signature(cls).parameters) - left <= set(parameters_of(cls))


def test_a_map_on_another():
    made = MapOptions("tefm", 3, n_components="8").make()
    assert isinstance(made.base, RandomFourierFeatures)
    assert (made.base.n_components, made.n_components, made.random_state) == (32, 8, 3)
    made = MapOptions("tefm", base_n_components="64", kernel="laplacian", whiten=True, base_whiten=True).make()
    assert (made.base.n_components, made.base.kernel, made.whiten, made.base.whiten) == (
        64,
        "laplacian",
        True,
        True,
    )
    made = MapOptions("tefm", base="laplace", n_components="8", beta="0.5").make()
    assert isinstance(made.base, RandomLaplaceFeatures)
    assert (made.base.beta, made.base.n_components) == (0.5, 32)
    assert MapOptions("maclaurin", base="3").make().base == 3
    with pytest.raises(UsageError, match=r"--base is one of fourier, .*, got 'tefm'"):
        MapOptions("tefm", base="tefm").make()
    with pytest.raises(UsageError, match=r"--beta is for other maps; this is a TEFM on RandomFourierFeatures"):
        MapOptions("tefm", beta="1").make()
    with pytest.raises(UsageError, match=r"--base-n-components must be an integer >= 1, got 1.5"):
        MapOptions("tefm", base_n_components="1.5").make()


def test_what_training_chooses():
    free = TrainMapOptions(length_scale="median", n_components="64")
    assert free.chosen(free.planned(5, 10**6)) == {
        "map": "auto", "length_scale": "median", "n_components": 64, "raw_columns": "auto", "random_state": 0,
    }  # fmt: skip
    named = TrainMapOptions(map="tefm", n_components="auto", raw_columns="no")
    planned = named.planned(5, 10**6)
    assert (planned.n_components, planned.base.n_components) == (2048, 8192)
    assert named.chosen(planned) == {
        "map": planned, "length_scale": "auto", "n_components": "auto", "raw_columns": False, "random_state": 0,
    }  # fmt: skip
    learned = TrainMapOptions(map="cnm", structure="circulant")
    made = learned.planned(5, 10**6)
    assert made.n_components == 256
    learned.follow_target(made, labels=True)
    assert made.objective == "multinomial"
    said = TrainMapOptions(map="cnm", objective="kernel")
    made = said.planned(5, 100)
    said.follow_target(made, labels=True)
    assert made.objective == "kernel"
    with pytest.raises(UsageError, match="--raw-columns must be True, False or 'auto', got 'maybe'"):
        TrainMapOptions(raw_columns="maybe")


def test_scaling():
    assert ScaleOptions(scale="auto").make() == "auto"
    assert ScaleOptions(scale="none").make() is None
    made = ScaleOptions(scale="auto", divisor=255.0).make()
    assert (made.method, made.divisor) == ("divide", 255)
    with pytest.raises(UsageError, match=r"--scale must be .*, got 'unit'"):
        ScaleOptions(scale="unit").make()
    with pytest.raises(UsageError, match="exclude each other"):
        ScaleOptions(scale="standard", divisor=2.0).make()
    with pytest.raises(UsageError, match="--divisor must be"):
        ScaleOptions(scale="auto", divisor=0.0).make()


def test_what_is_searched():
    estimator, parameters = SearchedMap(n_components="16,8", degree="2,3", map="tensor-sketch").searched(4)
    assert isinstance(estimator, TensorSketchFeatures)
    assert parameters == {"n_components": [16, 8], "degree": [2, 3]}
    options = SearchedMap(map="tefm", n_components="8,16", length_scale="2")
    estimator, parameters = options.searched(4)
    assert estimator.base.n_components == 64  # of the largest
    assert parameters == {"n_components": [8, 16], "base__length_scale": [2]}
    assert options.found(estimator, {"n_components": 8, "base__length_scale": 2}) == {
        "n_components": 8, "length_scale": 2, "base_n_components": 64,
    }  # fmt: skip
    assert SearchedMap(n_components="8").searched(4)[1] == {"n_components": [8], "length_scale": "knn"}
    assert SearchedMap(n_components="8", gamma="0.1,0.2").searched(4)[1] == {
        "n_components": [8],
        "gamma": [0.1, 0.2],
    }
    assert SearchedMap(map="none", n_components="1024,4096").searched(4) == (None, {})
    for wrong in ("8,", "8,8", ","):
        with pytest.raises(UsageError, match="--n-components is one value or several, comma-separated"):
            SearchedMap(n_components=wrong)
