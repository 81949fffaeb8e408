"""The files of cluster/: what parses, what their classes and Dask's and Kubernetes' schemas say of them."""

from __future__ import annotations

import asyncio
import inspect
import re
from pathlib import Path

import dask
import distributed
import jsonschema
import pytest
import yaml
from distributed import Adaptive, LocalCluster, Nanny, Scheduler, Worker
from distributed.cli import dask_scheduler, dask_worker
from servers import CLUSTER, ROOT

from distrf.cluster import read_cluster_spec
from distrf.preload import DEFAULTS

KUBERNETES = [CLUSTER / "kubernetes" / f"{name}.yaml" for name in ("daskcluster", "daskjob", "daskautoscaler")]
POLICY = CLUSTER / "kubernetes/networkpolicy.yaml"
HUB = CLUSTER / "kubernetes/values-daskhub.yaml"
SPECS = sorted(set(CLUSTER.rglob("*.yaml")) - {*KUBERNETES, POLICY, HUB})
SCRIPTS = [CLUSTER / "slurm/batch.sbatch", CLUSTER / "tls/make-certs.sh"]
DOCKERFILE, README = CLUSTER / "docker/Dockerfile", CLUSTER / "README.md"
FILES = [*SPECS, *KUBERNETES, POLICY, HUB, *SCRIPTS, DOCKERFILE]


def each(paths):
    return pytest.mark.parametrize("path", paths, ids=lambda path: str(path.relative_to(CLUSTER)))


def needs(module):
    return pytest.importorskip(module, reason=f"{module} cannot be imported", exc_type=ImportError)


def load(path):
    return yaml.safe_load(path.read_text())


def keywords(factory):
    """Names that a class takes, itself or by handing them on to the classes that it stands on."""
    taken = set()
    for owner in getattr(factory, "__mro__", [factory]):
        function = vars(owner).get("__init__") if inspect.isclass(owner) else owner
        if function is not None and owner is not object:
            taken |= inspect.signature(function).parameters.keys()
    if factory is LocalCluster:
        taken |= keywords(Worker) | keywords(Nanny)
    if hasattr(factory, "job_cls"):
        taken |= keywords(factory.job_cls)
    return taken


@each(SPECS)
def test_specs_name_what_their_class_takes(path):
    spec = read_cluster_spec(path)
    module, _, name = spec["class"].rpartition(".")
    factory = getattr(needs(module), name)
    assert set(spec["arguments"]) <= keywords(factory)
    for server, key in ((Scheduler, "scheduler_options"), (Nanny, "worker_options")):
        more = keywords(Worker) | {"n_workers"} if server is Nanny else set()
        assert set(spec["arguments"].get(key, {})) <= keywords(server) | more
    adapts = keywords(factory.adapt) | keywords(Adaptive) if spec.get("adapt") else set()
    assert set(spec.get("adapt") or {}) <= adapts - {"self", "kwargs"}
    manifest = spec["arguments"].get("custom_cluster_spec")  # as seen from the root of the repository
    assert manifest is None or ROOT / manifest in KUBERNETES


def parts(value):
    """All lists and dictionaries in a file."""
    if isinstance(value, dict | list):
        yield value
        for part in value.values() if isinstance(value, dict) else value:
            yield from parts(part)


@each([*SPECS, *KUBERNETES, HUB])
def test_the_words_for_servers_are_options_of_dask(path):
    known = {word for command in (dask_scheduler, dask_worker) for p in command.main.params for word in p.opts}
    words = {str(word) for part in parts(load(path)) if isinstance(part, list) for word in part}
    assert {word for word in words if word.startswith("--")} <= known | {
        "--cluster",
        "-D",
    }  # of a command of distrf


def test_every_file_is_checked_and_listed():
    files = {path for path in CLUSTER.rglob("*") if path.is_file()}
    # Certificates are made by hand, to try cluster/tls.
    assert {path for path in files if "certificates" not in path.parts} == {*FILES, README}
    for path in FILES:
        assert f"({path.relative_to(CLUSTER)})" in README.read_text(), f"README does not link {path.name}"


@each(SPECS)
def test_specs_wait_for_their_workers_and_say_what_to_try(path):
    assert load(path)["wait"]["workers"] >= 1
    assert f"--cluster {path.relative_to(ROOT)}" in path.read_text()


@pytest.mark.parametrize("package", [dask, distributed], ids=lambda package: package.__name__)
def test_settings_obey_the_schemas_of_dask(package):
    schema = strict(load(Path(package.__file__).parent / f"{package.__name__}-schema.yaml"))
    for settings in (DEFAULTS, *(load(path).get("dask") or {} for path in SPECS)):
        nested: dict = {}
        dask.config.set(settings, config=nested)
        own = {key: value for key, value in nested.items() if key in schema["properties"]}
        jsonschema.Draft202012Validator(schema).validate(own)


def strict(schema):
    """A schema that refuses what it does not list; a Kubernetes server would drop it silently."""
    if isinstance(schema, list):
        return [strict(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: strict(value) for key, value in schema.items()}
    if isinstance(made.get("properties"), dict) and not made.get("x-kubernetes-preserve-unknown-fields"):
        made.setdefault("additionalProperties", False)
    return made


def chart():
    """The operator's own."""
    return Path(needs("dask_kubernetes").__file__).parent / "operator/deployment/helm/dask-kubernetes-operator"


@each(KUBERNETES)
def test_manifests_obey_the_schemas_of_the_operator(path):
    manifest = load(path)
    crd = load(chart() / "crds" / f"{manifest['kind'].lower()}.yaml")
    assert manifest["apiVersion"] == f"{crd['spec']['group']}/v1"
    (schema,) = (v["schema"]["openAPIV3Schema"] for v in crd["spec"]["versions"] if v["name"] == "v1")
    validator = jsonschema.Draft202012Validator(strict(schema["properties"]["spec"]))
    validator.validate(manifest["spec"])
    manifest["spec"]["sizes"] = 3
    with pytest.raises(jsonschema.ValidationError, match="sizes"):
        validator.validate(manifest["spec"])


def test_the_job_has_the_cluster_that_stays():
    cluster, job = load(KUBERNETES[0]), load(KUBERNETES[1])
    inside = job["spec"]["cluster"]["spec"]
    for made, name in ((inside, "distrf-job"), (cluster["spec"], "distrf")):
        assert made["scheduler"]["service"]["selector"].pop("dask.org/cluster-name") == name
    assert inside == cluster["spec"]


def test_the_policy_keeps_others_from_these_clusters():
    """It obeys Kubernetes' schema, its labels are those of the manifests, and the operator still gets in."""
    validator = needs("kubernetes_validate")
    policy = load(POLICY)
    validator.validate(policy, "1.32", strict=True)
    spec = policy["spec"]
    peers = [peer["podSelector"] for rule in spec["ingress"] for peer in rule["from"]]
    assert spec["policyTypes"] == ["Ingress"]
    assert peers[0] == spec["podSelector"]
    names = sorted(load(path)["metadata"]["name"] for path in KUBERNETES[:2])
    named = {"key": "dask.org/cluster-name", "operator": "In", "values": names}
    assert spec["podSelector"]["matchExpressions"] == [named]
    assert "app.kubernetes.io/name:" in (chart() / "templates/_helpers.tpl").read_text()
    assert peers[1:] == [{"matchLabels": {"app.kubernetes.io/name": load(chart() / "Chart.yaml")["name"]}}]
    spec["podSelectors"] = {}
    with pytest.raises(validator.ValidationError, match="podSelectors"):
        validator.validate(policy, "1.32", strict=True)


@each(FILES[:-1])
def test_no_secrets_and_no_machine(path):
    """No password, no key material, no address of anybody's machine."""
    text = path.read_text()
    assert not re.search(r"(?i)password|secret|token:|access_key|BEGIN [A-Z ]*KEY", text)
    assert set(re.findall(r"\b\d{1,3}(?:\.\d{1,3}){3}\b", text)) <= {"127.0.0.1", "0.0.0.0"}


def test_the_job_that_slurm_gets(tmp_path, monkeypatch):
    """As dask-jobqueue writes it; beside it the text that is expected. Servers listen beyond this machine only with certificates."""
    module = needs("dask_jobqueue")
    monkeypatch.chdir(tmp_path)
    spec = read_cluster_spec(CLUSTER / "slurm/cluster.yaml")
    job_class = getattr(module, spec["class"].rpartition(".")[2]).job_cls
    arguments = {k: v for k, v in spec["arguments"].items() if k != "scheduler_options"}

    async def script():
        return job_class("tls://scheduler:8786", name="worker-0", python="python", **arguments).job_script()

    assert asyncio.run(script()).rstrip() == (Path(__file__).parent / "job_of_slurm.txt").read_text().rstrip()
    assert spec["tls"] is not None
    assert spec["arguments"]["scheduler_options"]["dashboard_address"].startswith("127.0.0.1:")
