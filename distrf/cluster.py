"""One way to reach a Dask cluster: nothing (local), an address, or a spec file."""

from __future__ import annotations

import asyncio
import atexit
import importlib
import inspect
import logging
import os
import signal
import socket
import ssl
import tempfile
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from importlib import resources
from multiprocessing import resource_tracker
from typing import Any

import dask
import yaml
from dask.system import CPU_COUNT
from dask.utils import parse_bytes, parse_timedelta
from distributed.security import Security

from .errors import ClusterError, InputError, did_you_mean, reworded
from .execution.memory import CLIENT_BYTES, PROCESS_BYTES
from .execution.worker_checks import WITHOUT_WORKERS
from .machine import machine_memory

#: Keys of `wait` in a spec, and of distrf in Dask's configuration.
_WAIT = ("timeout", "workers")
_SETTINGS = ("keep-blocks", "workers-timeout")
_SCHEMES = ("tcp://", "tls://", "ws://", "wss://", "ucx://", "inproc://")


class Connection:
    """An open connection to a cluster: `close`, or the end of a `with` block, ends it and what was started for it.

    Attributes: client, distributed.Client or None, which Dask uses by default meanwhile, and which a `with` block gets.
    """

    def __init__(self, opening: AbstractContextManager[Any]):
        self._open = ExitStack()
        self.client = self._open.enter_context(opening)
        atexit.register(self.close)  # which also holds what nobody keeps

    def close(self) -> None:
        """End the connection. A second call does nothing."""
        atexit.unregister(self.close)
        self._open.close()

    def __enter__(self) -> Any:
        return self.client

    def __exit__(self, *error: object) -> None:
        self.close()


def connect(
    cluster: str | os.PathLike[str] | None = None,
    *,
    memory_limit: str | int | None = None,
    n_workers: int | None = None,
    tls: str | os.PathLike[str] | None = None,
    timeout: float | None = None,
) -> Connection:
    """Connect to a Dask cluster, for the length of a `with` block or until `close`.

    Parameters
    ----------
    cluster : str, PathLike or None, default=None
        A scheduler address such as "tcp://10.0.0.1:8786", or a YAML or JSON spec file that names a Dask cluster
        class and its arguments (see cluster/README.md). None and "local" start a local cluster: one process with one
        thread for each core. "none" starts nothing: jobs run in threads of this process.
    memory_limit : str, int or None, default=None
        Memory of one local worker, in bytes or as "4GiB". None is an equal share of the machine, or of the container, batch
        job or service in which this process runs. Workers that are not started here have their own.
    n_workers : int or None, default=None
        Workers of the local cluster. None is one for each core, or as many as have memory to work.
    tls : str, PathLike or None, default=None
        Folder with ca.pem, cert.pem and key.pem (cluster/tls/make-certs.sh makes them): all connections are encrypted, and
        only who holds a certificate of that authority is let in. It goes before the folder of a spec file, and with a
        "tls://" address. None leaves it to Dask's configuration.
    timeout : float or None, default=None
        Seconds to wait for the scheduler and its first worker. None is 30 s, and for the worker Dask's configuration
        `distrf.workers-timeout` (`DASK_DISTRF__WORKERS_TIMEOUT`) where it is set. `wait` of a spec file goes before it.

    Returns
    -------
    Connection
        A context manager that gives the client, which Dask uses by default; None for "none". Without a `with` block the
        client is its attribute `client`, and its method `close` ends the connection.

    Raises
    ------
    ClusterError
        The scheduler cannot be reached, or no worker came.
    InputError
        The spec file is missing or malformed, a memory limit cannot be set, or certificates do not fit.
    """
    return Connection(_connected(cluster, memory_limit, n_workers, tls, timeout))


@contextmanager
def _connected(
    cluster: str | os.PathLike[str] | None,
    memory_limit: str | int | None,
    n_workers: int | None,
    tls: str | os.PathLike[str] | None,
    timeout: float | None,
) -> Iterator[Any]:
    """The client of `connect`."""
    patience = parse_timedelta(dask.config.get("distrf.workers-timeout", 30.0)) if timeout is None else timeout
    timeout = 30.0 if timeout is None else timeout
    if cluster == "none":
        check_memory_limit(memory_limit, cluster)
        with dask.config.set(scheduler="threads"):
            yield None
        return
    if cluster in (None, "local"):
        arguments = local_arguments(memory_limit, n_workers)
        spec: dict[str, Any] = {"class": "distributed.LocalCluster", "arguments": arguments}
    elif os.fspath(cluster).startswith(_SCHEMES):
        check_memory_limit(memory_limit, cluster)
        with dask.config.set(tls_settings(tls, cluster)), _client(os.fspath(cluster), timeout) as client:
            _wait(client, 1, patience)
            yield client
        return
    else:
        spec = read_cluster_spec(cluster)
        if memory_limit is not None:
            if not spec["class"].endswith("LocalCluster"):
                raise _not_local(memory_limit, f"workers of {spec['class']}")
            spec["arguments"]["memory_limit"] = _bytes(memory_limit)
    if tls is not None:
        spec["tls"] = os.fspath(tls)
    with (
        dask.config.set(tls_settings(spec.get("tls"))),
        _started(spec) as started,
        _client(started, timeout) as client,
    ):
        wait = spec.get("wait") or {}
        # An adaptive cluster starts some workers only when there are tasks: those cannot be waited for.
        least = 1 if spec.get("adapt") is None else spec["adapt"].get("minimum", 0)
        _wait(client, int(wait.get("workers", least)), float(wait.get("timeout", patience)))
        yield client


def local_arguments(memory_limit: str | int | None = None, n_workers: int | None = None) -> dict[str, Any]:
    """Arguments of a LocalCluster: processes with one thread each.

    Parameters
    ----------
    memory_limit : str or int, optional
        Of one worker, in bytes or as "4GiB".
    n_workers : int, optional
        None: one for each core, or as many as have memory for more than their process.

    Returns
    -------
    dict

    Raises
    ------
    InputError
        The memory limit is not a number of bytes above 0.
    """
    count = n_workers or CPU_COUNT
    if n_workers is None and memory_limit is None:
        count = max(1, min(count, (machine_memory() - CLIENT_BYTES) // (2 * PROCESS_BYTES)))
    arguments: dict[str, Any] = {"n_workers": count, "threads_per_worker": 1, "processes": True}
    arguments["memory_limit"] = _share(arguments) if memory_limit is None else _bytes(memory_limit)
    return arguments


def _share(arguments: dict[str, Any]) -> int:
    """Memory of one worker of a LocalCluster: an equal part of what this process leaves, if they are others."""
    have = machine_memory() - CLIENT_BYTES * arguments.get("processes", True)
    return max(have // arguments["n_workers"], 2**20)  # 0 would be no limit


def check_memory_limit(memory_limit: str | int | None, cluster: str | os.PathLike[str] | None = None) -> None:
    """Raise InputError for a memory limit that is none, or of the workers at an address: they have their own."""
    if memory_limit is not None:
        _bytes(memory_limit)
        if cluster is not None and os.fspath(cluster).startswith(_SCHEMES):
            raise _not_local(memory_limit, f"the workers at {os.fspath(cluster)}")
        if cluster == "none":
            raise _not_local(memory_limit, "threads of this process")


def tls_settings(
    folder: str | os.PathLike[str] | None, cluster: str | os.PathLike[str] | None = None
) -> dict[str, Any]:
    """Dask's configuration for servers and clients that show the certificate in a folder and trust its authority alone.

    Raises InputError where the folder lacks a file, its files do not go together, or the cluster is an address without
    encryption.
    """
    if folder is None:
        return {}
    address = "" if cluster is None else os.fspath(cluster)
    if address.startswith(_SCHEMES) and not address.startswith(("tls://", "wss://")):
        raise InputError(
            f"certificates are for encrypted connections, and {address!r} is none; give the address as tls://host:port, or "
            "leave tls out"
        )
    ca, cert, key = (os.path.abspath(os.path.join(folder, name)) for name in ("ca.pem", "cert.pem", "key.pem"))
    try:
        ssl.create_default_context(cafile=ca).load_cert_chain(cert, key)
    except OSError as error:
        raise InputError(
            f"tls is a folder with ca.pem, cert.pem and key.pem that go together, got {os.fspath(folder)!r}: {error}; "
            "cluster/tls/make-certs.sh makes one"
        ) from error
    comm: dict[str, Any] = {"require-encryption": True, "default-scheme": "tls", "tls.ca-file": ca}
    for role in ("client", "scheduler", "worker"):
        comm |= {f"tls.{role}.cert": cert, f"tls.{role}.key": key}
    return {f"distributed.comm.{name}": value for name, value in comm.items()}


def _not_local(memory_limit: str | int, workers: str) -> InputError:
    return InputError(
        f"a memory limit ({memory_limit}) is for local workers; {workers} have their own, which is respected; leave it "
        "out, or set it where they are started"
    )


def _bytes(memory_limit: str | int) -> int:
    try:
        size = parse_bytes(memory_limit)
    except ValueError:
        size = 0
    if size < 1:
        raise InputError(f"a memory limit is a number of bytes above 0, such as 4GiB, got {memory_limit!r}")
    return size


def read_cluster_spec(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read and check a cluster spec.

    Parameters
    ----------
    path : path
        A YAML or JSON file.

    Returns
    -------
    dict
        `class` and `arguments`, and where they are given `scale`, `adapt`, `wait`, `tls` (a folder, relative to the file) and
        `dask` (configuration).

    Raises
    ------
    InputError
        There is no such file, or it is malformed; the message says where.
    """
    if not os.path.isfile(path):
        raise InputError(
            f"cluster= is a scheduler address ({_SCHEMES[0]}host:port) or a spec file; "
            f"{os.fspath(path)!r} is neither: no such file"
        )
    with open(path, encoding="utf-8") as file:
        try:
            spec = yaml.safe_load(file)
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            raise InputError(f"the cluster spec {os.fspath(path)!r} is not YAML: {error}") from error
    known = {"class", "arguments", "scale", "adapt", "wait", "tls", "dask"}
    if not isinstance(spec, dict) or not isinstance(spec.get("class"), str) or set(spec) - known:
        received = sorted(spec) if isinstance(spec, dict) else type(spec).__name__
        raise InputError(
            f"a cluster spec has 'class' and may have {sorted(known - {'class'})}; got {received} in {path}"
        )
    if "." not in spec["class"]:
        raise InputError(
            f"'class' of a cluster spec is module.Class, such as distributed.LocalCluster; got {spec['class']!r}"
        )
    for key in ("arguments", "adapt", "wait", "dask"):
        if spec.get(key) is not None and not isinstance(spec[key], dict):
            raise InputError(
                f"{key!r} of a cluster spec has keys and values below it, got {spec[key]!r} in {path}"
            )
    _check_keys(spec, path)
    numbers = {"scale": _keywords(spec.get("scale"), "n").get("n")} | {
        f"wait: {key}": value for key, value in (spec.get("wait") or {}).items()
    }
    for key, value in numbers.items():
        whole = isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 0
        if value is not None and not whole:
            raise InputError(f"'{key}' of a cluster spec is a number of at least 0, got {value!r} in {path}")
    if spec.get("tls") is not None:
        if not isinstance(spec["tls"], str):
            raise InputError(
                f"'tls' of a cluster spec is a folder of certificates, got {spec['tls']!r} in {path}"
            )
        spec["tls"] = os.path.join(os.path.dirname(path), os.path.expanduser(spec["tls"]))
    spec["arguments"] = dict(spec.get("arguments") or {})
    if spec["class"].endswith("LocalCluster") and spec["arguments"].get("n_workers"):
        spec["arguments"].setdefault("memory_limit", _share(spec["arguments"]))
    return spec


def _check_keys(spec: dict[str, Any], path: str | os.PathLike[str]) -> None:
    """Raise InputError for a key of `wait`, or of `dask`, that nothing reads: its value would be ignored without a word."""
    for key in sorted(map(str, set(spec.get("wait") or {}) - set(_WAIT))):
        raise InputError(
            f"'wait' of a cluster spec has workers and timeout, got {key!r}{did_you_mean(key, _WAIT)} in {path}"
        )
    if not spec.get("dask"):
        return
    settings: dict[str, Any] = {}
    dask.config.set(spec["dask"], config=settings)
    known: dict[str, Any] = {"distrf": {"properties": {name: {} for name in _SETTINGS}}}
    for package in ("dask", "distributed"):
        text = resources.files(package).joinpath(f"{package}-schema.yaml").read_text(encoding="utf-8")
        known |= yaml.safe_load(text)["properties"]
    known["distributed"]["properties"]["scheduler"]["properties"]["pickle"] = {}  # read, but not in the schema
    _check_settings(settings, known, "", path)


def _check_settings(
    settings: dict[str, Any], known: dict[str, Any], above: str, path: str | os.PathLike[str]
) -> None:
    """Compare keys of Dask's configuration, whose words are joined by - or _, with its schema, level by level."""
    for key, value in settings.items():
        name = str(key).replace("_", "-")
        if name in known:
            below = known[name].get("properties")
            if below and isinstance(value, dict):
                _check_settings(value, below, f"{above}{name}.", path)
        # Other packages have settings of their own at the top.
        elif above or did_you_mean(name, known, likeness=0.75):
            raise InputError(
                f"'dask' of a cluster spec has Dask's configuration, which has no {above}{name}"
                f"{did_you_mean(name, known, before=above)}; see {path}"
            )


@contextmanager
def _started(spec: dict[str, Any]) -> Iterator[Any]:
    """The cluster of a spec, closed at the end."""
    module, _, name = spec["class"].rpartition(".")
    interrupt = signal.getsignal(signal.SIGINT)
    try:
        factory = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ClusterError(
            f"the cluster class {spec['class']!r} cannot be imported ({error}); install the extra that provides it "
            "(distrf[ssh], distrf[jobqueue], distrf[kubernetes], distrf[cloud])"
        ) from error
    finally:
        if signal.getsignal(signal.SIGINT) is not interrupt:  # dask-jobqueue makes Ctrl-C leave Python
            signal.signal(signal.SIGINT, interrupt)
    if not _is_cluster(factory):
        raise InputError(
            f"'class' of a cluster spec is a Dask cluster (a subclass of distributed.deploy.Cluster), such as "
            f"distributed.LocalCluster; {spec['class']!r} is none, and was not called"
        )
    if factory.__name__ == "LocalCluster":
        _check_local(spec["arguments"])
    preloads = {f"distributed.{server}.preload": ["distrf.preload"] for server in ("scheduler", "worker")}
    settings = preloads | (spec.get("dask") or {})
    if "timeout" in (spec.get("wait") or {}):  # workers that take so long to come at first do so amid a job too
        settings.setdefault("distrf.workers-timeout", max(float(spec["wait"]["timeout"]), WITHOUT_WORKERS))
    arguments = dict(spec["arguments"])
    with ExitStack() as stack:
        stack.enter_context(dask.config.set(settings))
        if factory.__name__ == "LocalCluster":
            arguments.setdefault("dashboard_address", f"127.0.0.1:{_free_dashboard_port()}")
            if not arguments.get("processes", True):  # whose own pages Dask would serve to every network
                arguments.setdefault("worker_dashboard_address", "127.0.0.1:0")
            if "local_directory" not in arguments:
                arguments["local_directory"] = stack.enter_context(
                    tempfile.TemporaryDirectory(prefix="distrf-", ignore_cleanup_errors=True)
                )
        if spec.get("tls") is not None:
            arguments.setdefault("security", Security())
        nannies = logging.getLogger("distributed.nanny")
        stack.callback(nannies.setLevel, nannies.level)
        with reworded(  # of a provider: no region, no credentials, an argument that it does not know
            lambda error: ClusterError(
                f"{spec['class']} with the arguments {sorted(arguments)} did not start: "
                f"{type(error).__name__}: {' '.join(str(error).split())}"
            )
        ):
            with _interrupts_held(), warnings.catch_warnings():
                # Another job may take the port after it was found free: then Dask takes any other.
                warnings.filterwarnings("ignore", r"Port \d+ is already in use", UserWarning)
                cluster = stack.enter_context(factory(**arguments))
            if spec.get("scale"):
                cluster.scale(**_keywords(spec["scale"], "n"))
            if spec.get("adapt") is not None:
                cluster.adapt(**spec["adapt"])
        # On a busy machine workers end late. At the end of a job that is not worth a warning.
        stack.callback(nannies.setLevel, logging.ERROR)
        yield cluster


def _check_local(arguments: dict[str, Any]) -> None:
    """Raise InputError for arguments that nothing takes: workers would fail one by one, each with a traceback."""
    from distributed import LocalCluster, Nanny, Worker

    known: set[str] = set()
    for taker in (LocalCluster, Nanny, Worker):
        known |= inspect.signature(taker.__init__).parameters.keys()
    unknown = sorted(set(arguments) - known)
    if unknown:
        raise InputError(
            f"distributed.LocalCluster has no argument {', '.join(unknown)}{did_you_mean(unknown, known)}"
        )


def _is_cluster(factory: Any) -> bool:
    """Whether a call of it makes a Dask cluster. Dask's SSHCluster is a function, the others are classes."""
    from distributed import SSHCluster
    from distributed.deploy import Cluster

    return factory is SSHCluster or (isinstance(factory, type) and issubclass(factory, Cluster))


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Ctrl-C waits for the end of the block, and never reaches what is started in it.

    A terminal sends SIGINT to every process. Workers that it ends by themselves fill the screen with tracebacks; the
    client, which gets it too, closes them.
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    resource_tracker.ensure_running()  # if it started later, that would unblock the signal
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _keywords(value: Any, name: str) -> dict[str, Any]:
    return value if isinstance(value, dict) else {name: value}


def _free_dashboard_port() -> int:
    """8787 where it is free, else any port (0): a second job on the machine is not an error."""
    with socket.socket() as probe:
        return 8787 if probe.connect_ex(("127.0.0.1", 8787)) else 0


@contextmanager
def _client(target: Any, timeout: float) -> Iterator[Any]:
    from distributed import Client

    try:
        if isinstance(target, str) and not target.startswith("inproc://"):
            with ThreadPoolExecutor(1) as pool:  # a thread of its own: a notebook has a running event loop
                pool.submit(asyncio.run, _shake_hands(target, timeout)).result()
        client = Client(target, timeout=timeout)
    except Exception as error:  # bytes of another service read as nonsense: anything may come, even MemoryError
        raise ClusterError(
            f"no Dask scheduler answered at {target!r} within {timeout:g} s ({error or type(error).__name__}); check the "
            "address (the scheduler's port, not the dashboard's), that the scheduler runs, that its port is open from here, "
            "and for tls:// that tls= names certificates of the same authority"
        ) from error
    with client:
        yield client


async def _shake_hands(address: str, timeout: float) -> None:
    """Raise unless a Dask server answers in time; Dask itself waits forever for one that accepts and is silent."""
    from distributed.comm import connect as open_comm

    arguments = Security().get_connection_args("client")
    comm = await asyncio.wait_for(open_comm(address, timeout=timeout, **arguments), timeout)
    await comm.close()


def _wait(client: Any, count: int, timeout: float) -> None:
    if count < 1:
        return
    try:
        client.wait_for_workers(count, timeout=timeout)
    except TimeoutError as error:
        have = len(client.scheduler_info(n_workers=-1)["workers"])
        raise ClusterError(
            f"{have} of {count} workers came within {timeout:g} s; check the queue, the worker logs and the network "
            "between workers and scheduler. In a cluster spec, 'scale' (or 'adapt') asks for workers, and 'wait.timeout' "
            "says for how many seconds to wait; without a spec distrf.workers-timeout in Dask's configuration does "
            "(DASK_DISTRF__WORKERS_TIMEOUT=300s)"
        ) from error
