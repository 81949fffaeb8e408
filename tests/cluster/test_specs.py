"""The files of cluster/: what parses, what their classes and Dask's and Kubernetes' schemas say of them."""

from __future__ import annotations

import asyncio
import inspect
import re
from pathlib import Path
from types import SimpleNamespace

import dask
import distributed
import jsonschema
import pytest
import yaml
from distributed import Adaptive, LocalCluster, Nanny, Scheduler, Worker
from distributed.cli import dask_scheduler, dask_worker

import distrf
from distrf.cli.jobs import job_words
from distrf.cluster import read_cluster_spec
from distrf.preload import DEFAULTS

ROOT = Path(__file__).parents[2]
CLUSTER = ROOT / "cluster"
KUBERNETES = [CLUSTER / "kubernetes" / f"{name}.yaml" for name in ("daskcluster", "daskjob", "daskautoscaler")]
POLICY = CLUSTER / "kubernetes/networkpolicy.yaml"
HUB = CLUSTER / "kubernetes/values-daskhub.yaml"
SPECS = sorted(set(CLUSTER.rglob("*.yaml")) - {*KUBERNETES, POLICY, HUB})
SCRIPTS = [CLUSTER / "slurm/batch.sbatch", CLUSTER / "tls/make-certs.sh"]

every_spec = pytest.mark.parametrize("path", SPECS, ids=lambda path: str(path.relative_to(CLUSTER)))


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


@every_spec
def test_specs_name_what_their_class_takes(path):
    spec = read_cluster_spec(path)
    module, _, name = spec["class"].rpartition(".")
    found = pytest.importorskip(module, reason=f"{module} cannot be imported", exc_type=ImportError)
    factory = getattr(found, name)
    assert set(spec["arguments"]) <= keywords(factory)
    for server, key in ((Scheduler, "scheduler_options"), (Nanny, "worker_options")):
        more = keywords(Worker) | {"n_workers"} if server is Nanny else set()
        assert set(spec["arguments"].get(key, {})) <= keywords(server) | more
    assert set(spec.get("wait") or {}) <= {"workers", "timeout"}
    adapts = keywords(factory.adapt) | keywords(Adaptive) if spec.get("adapt") else set()
    assert set(spec.get("adapt") or {}) <= adapts - {"self", "kwargs"}
    manifest = spec["arguments"].get("custom_cluster_spec")  # as seen from the root of the repository
    assert manifest is None or ROOT / manifest in KUBERNETES


def options_of_servers(value):
    """Every option in the lists of words of a file, which go to `dask scheduler` and `dask worker`."""
    if isinstance(value, dict):
        value = list(value.values())
    if not isinstance(value, list):
        return set()
    own = {word for word in value if isinstance(word, str) and word.startswith("--")}
    return own.union(*(options_of_servers(part) for part in value))


@pytest.mark.parametrize("path", [*SPECS, *KUBERNETES, HUB], ids=lambda p: str(p.relative_to(CLUSTER)))
def test_the_words_for_servers_are_options_of_dask(path):
    known = {word for command in (dask_scheduler, dask_worker) for p in command.main.params for word in p.opts}
    commands_of_distrf = {"--cluster"}
    assert options_of_servers(load(path)) <= known | commands_of_distrf


def test_every_file_is_checked():
    checked = {
        *SPECS,
        *KUBERNETES,
        POLICY,
        HUB,
        *SCRIPTS,
        CLUSTER / "docker/Dockerfile",
        CLUSTER / "README.md",
    }
    files = {path for path in CLUSTER.rglob("*") if path.is_file()}
    assert {
        path for path in files if "certificates" not in path.parts
    } == checked  # made by hand, to try cluster/tls


@every_spec
def test_specs_wait_for_their_workers_and_say_what_to_try(path):
    assert load(path)["wait"]["workers"] >= 1
    assert f"--cluster {path.relative_to(ROOT)}" in path.read_text()


def test_the_listing_of_the_readme_is_complete():
    text = (CLUSTER / "README.md").read_text()
    for path in (*SPECS, *KUBERNETES, POLICY, HUB, *SCRIPTS, CLUSTER / "docker/Dockerfile"):
        assert f"({path.relative_to(CLUSTER)})" in text, f"cluster/README.md does not link {path.name}"


def test_the_job_file_of_the_readme_is_one(tmp_path):
    (text,) = re.findall(r"^```toml\n(.*?)^```", (CLUSTER / "README.md").read_text(), flags=re.M | re.S)
    (tmp_path / "job.toml").write_text(text)
    assert job_words(str(tmp_path / "job.toml"))[0] == "train"


@pytest.mark.parametrize("package", ["dask", "distributed"])
def test_settings_obey_the_schemas_of_dask(package):
    schema = load(
        Path({"dask": dask, "distributed": distributed}[package].__file__).parent / f"{package}-schema.yaml"
    )
    schema = strict(schema)
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


@pytest.mark.parametrize("path", KUBERNETES, ids=lambda path: path.stem)
def test_manifests_obey_the_schemas_of_the_operator(path):
    operator = pytest.importorskip("dask_kubernetes", reason="dask-kubernetes is not installed")
    crds = Path(operator.__file__).parent / "operator/deployment/helm/dask-kubernetes-operator/crds"
    manifest = load(path)
    crd = load(crds / f"{manifest['kind'].lower()}.yaml")
    assert manifest["apiVersion"] == f"{crd['spec']['group']}/v1"
    version = next(v for v in crd["spec"]["versions"] if v["name"] == "v1")
    validator = jsonschema.Draft202012Validator(
        strict(version["schema"]["openAPIV3Schema"]["properties"]["spec"])
    )
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
    validator = pytest.importorskip("kubernetes_validate", reason="kubernetes-validate is not installed")
    operator = pytest.importorskip("dask_kubernetes", reason="dask-kubernetes is not installed")
    policy = load(POLICY)
    validator.validate(policy, "1.32", strict=True)
    spec = policy["spec"]
    peers = [peer["podSelector"] for rule in spec["ingress"] for peer in rule["from"]]
    assert spec["policyTypes"] == ["Ingress"]
    assert peers[0] == spec["podSelector"]
    names = sorted(load(path)["metadata"]["name"] for path in KUBERNETES[:2])
    assert spec["podSelector"]["matchExpressions"] == [
        {"key": "dask.org/cluster-name", "operator": "In", "values": names}
    ]
    chart = Path(operator.__file__).parent / "operator/deployment/helm/dask-kubernetes-operator"
    assert "app.kubernetes.io/name:" in (chart / "templates/_helpers.tpl").read_text()
    assert peers[1:] == [{"matchLabels": {"app.kubernetes.io/name": load(chart / "Chart.yaml")["name"]}}]
    spec["podSelectors"] = {}
    with pytest.raises(validator.ValidationError, match="podSelectors"):
        validator.validate(policy, "1.32", strict=True)


def keys_of_chart():
    """The chart has no schema: these are its keys and the types of their values."""
    image = {"name": str, "tag": str, "pullPolicy": str, "pullSecrets": list}
    share = {"guarantee": (int, float, str), "limit": (int, float, str)}
    size = {"request": (int, float, str), "limit": (int, float, str)}
    pod = {"cores": size, "memory": size, "extraPodConfig": dict, "extraContainerConfig": dict}
    return {
        "rbac": {"enabled": bool},
        "jupyterhub": {
            "hub": dict, "proxy": dict, "scheduling": dict, "prePuller": dict, "ingress": dict, "cull": dict,
            "singleuser": {"image": image, "cpu": share, "memory": share, "defaultUrl": str, "extraEnv": dict,
                           "serviceAccountName": str, "storage": dict, "networkPolicy": dict, "startTimeout": int},
        },
        "dask-gateway": {
            "enabled": bool,
            "controller": dict,
            "traefik": dict,
            "gateway": {
                "prefix": str, "auth": dict, "loglevel": str, "replicas": int, "resources": dict, "extraConfig": dict,
                "backend": {"image": image, "namespace": str, "environment": dict, "scheduler": pod,
                            "worker": pod | {"threads": int}},
            },
        },
        "dask-kubernetes": {"enabled": bool},
    }  # fmt: skip


def test_the_values_are_keys_of_their_chart():
    def check(values, keys):
        for key, value in values.items():
            if isinstance(keys[key], dict):
                check(value, keys[key])
            else:
                assert isinstance(value, keys[key]), key

    check(load(HUB), keys_of_chart())


def test_what_the_hub_adds_is_python():
    """The gateway runs it as configuration, in which `c` is what it sets."""
    gateway = load(HUB)["dask-gateway"]["gateway"]
    made = SimpleNamespace()
    exec(gateway["extraConfig"]["distrf"], {"c": SimpleNamespace(KubeClusterConfig=made)})
    settings = vars(made)
    assert set(settings) == {"worker_cmd", "idle_timeout"}
    words, worker = settings["worker_cmd"], gateway["backend"]["worker"]
    assert words[words.index("--preload") + 1] == "distrf.preload"
    (mount,) = worker["extraContainerConfig"]["volumeMounts"]
    assert mount["mountPath"] == words[words.index("--local-directory") + 1]
    assert mount["name"] == worker["extraPodConfig"]["volumes"][0]["name"]
    own = DEFAULTS["distributed"]["scheduler"]["worker-saturation"]
    assert float(gateway["backend"]["environment"]["DASK_DISTRIBUTED__SCHEDULER__WORKER_SATURATION"]) == own


def images(value):
    """Every container image that a file names."""
    if isinstance(value, list):
        return {image for part in value for image in images(part)}
    if not isinstance(value, dict):
        return set()
    found = {f"{value.get('repository', value.get('name'))}:{value['tag']}"} if "tag" in value else set()
    found |= {value[key] for key in ("image", "docker_image") if isinstance(value.get(key), str)}
    return found.union(*(images(part) for part in value.values()))


def test_all_name_the_image_that_the_dockerfile_makes():
    built, hub = f"distrf:{distrf.__version__}", f"distrf-hub:{distrf.__version__}"
    assert f"-t {built} " in (CLUSTER / "docker/Dockerfile").read_text()
    for path in (*SPECS, *KUBERNETES):
        assert images(load(path)) <= {built}
    assert images(load(HUB)) == {hub}
    assert f"-t {hub} " in HUB.read_text()


def test_what_the_dockerfile_copies_is_there():
    for line in (CLUSTER / "docker/Dockerfile").read_text().splitlines():
        if line.startswith("COPY"):
            for source in line.split()[1:-1]:
                assert (ROOT / source).exists(), source


@pytest.mark.parametrize(
    "path", [*SPECS, *KUBERNETES, POLICY, HUB, *SCRIPTS], ids=lambda p: str(p.relative_to(CLUSTER))
)
def test_no_secrets_and_no_machine(path):
    """No password, no key material, no address of anybody's machine."""
    text = path.read_text()
    assert not re.search(r"(?i)password|secret|token:|access_key|BEGIN [A-Z ]*KEY", text)
    assert set(re.findall(r"\b\d{1,3}(?:\.\d{1,3}){3}\b", text)) <= {"127.0.0.1", "0.0.0.0"}


def test_the_job_that_slurm_gets(tmp_path, monkeypatch):
    """As dask-jobqueue writes it; beside it the text that is expected. Servers listen beyond this machine only with certificates."""
    module = pytest.importorskip("dask_jobqueue", reason="dask-jobqueue is not installed")
    monkeypatch.chdir(tmp_path)
    spec = read_cluster_spec(CLUSTER / "slurm/cluster.yaml")
    job_class = getattr(module, spec["class"].rpartition(".")[2]).job_cls
    arguments = {k: v for k, v in spec["arguments"].items() if k != "scheduler_options"}

    async def script():
        return job_class("tls://scheduler:8786", name="worker-0", python="python", **arguments).job_script()

    assert asyncio.run(script()).rstrip() == (Path(__file__).parent / "job_of_slurm.txt").read_text().rstrip()
    assert spec["tls"] is not None
    assert spec["arguments"]["scheduler_options"]["dashboard_address"].startswith("127.0.0.1:")
