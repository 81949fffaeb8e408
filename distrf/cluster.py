"""One way to reach a Dask cluster: nothing (local), an address, or a spec file."""

from __future__ import annotations

import asyncio
import importlib
import os
import signal
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from multiprocessing import resource_tracker
from typing import Any

import dask
import yaml
from dask.system import CPU_COUNT
from dask.utils import parse_bytes, parse_timedelta
from distributed.security import Security

from .errors import ClusterError, InputError, reworded
from .execution.memory import CLIENT_BYTES, PROCESS_BYTES, machine_memory
from .execution.workers import WITHOUT_WORKERS

#: What a cluster spec may have.
_KEYS = {"class", "arguments", "scale", "adapt", "wait", "dask", "tls"}


class Connection(ExitStack):
    """An open connection to a cluster: `close`, or the end of a `with` block, ends it and what was started for it.

    Attributes: client, distributed.Client or None, which Dask uses by default meanwhile, and which a `with` block gets.
    """

    client: Any = None

    def __enter__(self) -> Any:
        return self.client


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
        Whose `client` Dask uses by default meanwhile; a `with` block gets it. None for "none".

    Raises
    ------
    ClusterError
        The scheduler cannot be reached, or no worker came.
    InputError
        The spec file is missing or malformed, a memory limit cannot be set, or certificates do not fit.
    """
    patience = dask.config.get("distrf.workers-timeout", 30.0) if timeout is None else timeout
    timeout = 30.0 if timeout is None else timeout
    cluster = os.fspath(cluster or "local")
    spec = asked_spec(cluster, memory_limit, n_workers)
    with (stack := Connection()):
        if cluster == "none":
            stack.enter_context(dask.config.set(scheduler="threads"))
            return stack.pop_all()
        certificates = tls_settings(tls or spec.get("tls"))
        stack.enter_context(dask.config.set(certificates))
        if certificates and spec:
            spec["arguments"].setdefault("security", Security())
        target = _started(spec, cluster, stack) if spec else cluster
        client = stack.enter_context(_client(target, timeout))
        # An adaptive cluster starts some workers only when there are tasks: those cannot be waited for.
        least = 1 if spec.get("adapt") is None else spec["adapt"].get("minimum", 0)
        _wait(client, **{"workers": least, "timeout": patience} | spec.get("wait", {}))
        connection = stack.pop_all()
        connection.client = client
        return connection


def asked_spec(
    cluster: str, memory_limit: str | int | None = None, n_workers: int | None = None
) -> dict[str, Any]:
    """The spec of the cluster that `connect` would start; {} where it starts none.

    Raises
    ------
    InputError
        The file is missing or malformed, or the memory limit is no number of bytes, or of other workers, which have their own.
    """
    if cluster == "local":
        return {"class": "distributed.LocalCluster", "arguments": local_arguments(memory_limit, n_workers)}
    if memory_limit is not None:
        raise InputError(
            f"a memory limit ({memory_limit}) is for local workers; cluster={cluster} has its own, which is respected; leave it "
            "out, or set it where workers are started (`memory_limit` below `arguments` of a spec file)"
        )
    return {} if cluster == "none" or "://" in cluster else read_cluster_spec(cluster)


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
    limit = 0
    with suppress(ValueError):
        limit = _share(arguments) if memory_limit is None else parse_bytes(memory_limit)
    if limit < 1:  # 0 is no limit to Dask
        raise InputError(f"a memory limit is a number of bytes above 0, such as 4GiB, got {memory_limit!r}")
    return arguments | {"memory_limit": limit}


def _share(arguments: dict[str, Any]) -> int:
    """Memory of one worker of a LocalCluster: an equal part of what this process leaves, if they are others."""
    have = machine_memory() - CLIENT_BYTES * arguments.get("processes", True)
    return max(have // arguments["n_workers"], 2**20)  # 0 would be no limit


def tls_settings(folder: str | os.PathLike[str] | None) -> dict[str, Any]:
    """Dask's configuration for servers and clients that show the certificate in a folder and trust its authority alone.

    SSHCluster hands the configuration on to other machines, and would not hand on a `Security`. Raises InputError where the
    folder lacks a file, or its files do not go together.
    """
    if folder is None:
        return {}
    ca, cert, key = (os.path.abspath(os.path.join(folder, name)) for name in ("ca.pem", "cert.pem", "key.pem"))
    comm: dict[str, Any] = {"require-encryption": True, "default-scheme": "tls", "tls.ca-file": ca}
    for role in ("client", "scheduler", "worker"):
        comm |= {f"tls.{role}.cert": cert, f"tls.{role}.key": key}
    settings = {f"distributed.comm.{name}": value for name, value in comm.items()}
    wrong = f"tls is a folder with ca.pem, cert.pem and key.pem that go together, got {os.fspath(folder)!r}"
    remedy = "cluster/tls/make-certs.sh makes one"
    with (
        reworded(lambda error: InputError(f"{wrong}: {error}; {remedy}")),
        dask.config.set(settings),
    ):
        Security().get_connection_args("client")
    return settings


def read_cluster_spec(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read a cluster spec.

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
        There is no such file, or it is malformed. What stands below `arguments`, `scale`, `adapt` and `dask` is for Dask to
        judge.
    """
    wrong = "cluster= is a scheduler address (tcp://host:port) or a spec file (cluster/README.md has examples)"

    def told(error: Exception) -> InputError:  # the text of an OSError has the path again
        return InputError(
            f"{wrong}; {os.fspath(path)!r} is neither: {getattr(error, 'strerror', None) or error}"
        )

    with reworded(told):
        with open(path, encoding="utf-8") as file:
            spec = yaml.safe_load(file)
        spec |= {name: dict(spec.get(name) or {}) for name in ("arguments", "wait")}
        if (
            not isinstance(spec.get("class"), str)
            or set(spec) - _KEYS
            or set(spec["wait"]) - {"workers", "timeout"}
        ):
            raise ValueError(
                f"it has 'class' and may have {sorted(_KEYS - {'class'})}, and 'wait' workers and timeout; got {spec}"
            )
        if spec.get("tls") is not None:
            spec["tls"] = os.path.join(os.path.dirname(path), os.path.expanduser(spec["tls"]))
    if spec["class"].endswith("LocalCluster") and spec["arguments"].get("n_workers"):
        spec["arguments"].setdefault("memory_limit", _share(spec["arguments"]))
    return spec


def _started(spec: dict[str, Any], name: str, stack: ExitStack) -> Any:
    """The cluster of a spec, which the end of the stack closes."""
    factory, arguments, wait = _cluster_class(spec["class"]), spec["arguments"], spec.get("wait", {})
    settings: dict[str, Any] = {"distributed.worker.preload": ["distrf.preload"]}
    settings |= spec.get("dask") or {}
    if factory.__name__ == "LocalCluster":
        with socket.socket() as probe:  # a second job on the machine takes any port, for which Dask would warn
            port = 8787 if probe.connect_ex(("127.0.0.1", 8787)) else 0
        arguments.setdefault("dashboard_address", f"127.0.0.1:{port}")
        if not arguments.get("processes", True):  # whose own pages Dask would serve to every network
            arguments.setdefault("worker_dashboard_address", "127.0.0.1:0")

    def explain(error: BaseException) -> ClusterError:
        while error.__cause__ is not None:  # Dask wraps what a worker says of an argument
            error = error.__cause__
        text = f"{spec['class']} of cluster={name} did not start: {type(error).__name__}: {' '.join(str(error).split())}"
        return ClusterError(text + "; a script connects below `if __name__ == '__main__':`" * ("Nanny" in text))

    with reworded(explain):  # of a provider: no region, no credentials, an argument that it does not know
        if "timeout" in wait:  # workers that take so long to come at first do so amid a job too
            patience = max(parse_timedelta(wait["timeout"]), WITHOUT_WORKERS)
            settings.setdefault("distrf.workers-timeout", patience)
        stack.enter_context(dask.config.set(settings))
        with _interrupts_held():
            cluster = stack.enter_context(factory(**arguments))
        if scale := spec.get("scale"):
            cluster.scale(**scale if isinstance(scale, dict) else {"n": scale})
        if spec.get("adapt") is not None:
            cluster.adapt(**spec["adapt"])
    return cluster


def _cluster_class(name: str) -> Any:
    """The Dask cluster of this name. Nothing else is called."""
    from distributed import SSHCluster
    from distributed.deploy import Cluster

    interrupt = signal.getsignal(signal.SIGINT)
    module, _, member = name.rpartition(".")
    try:
        factory = getattr(importlib.import_module(module), member)
    except (ImportError, AttributeError, ValueError) as error:
        raise ClusterError(
            f"the cluster class {name!r} cannot be imported ({error}); it is module.Class, such as distributed.LocalCluster, "
            "and an extra may provide it (distrf[ssh], distrf[jobqueue], distrf[kubernetes], distrf[cloud])"
        ) from error
    finally:
        if signal.getsignal(signal.SIGINT) is not interrupt:  # dask-jobqueue makes Ctrl-C leave Python
            signal.signal(signal.SIGINT, interrupt)
    # SSHCluster is a function.
    if factory is not SSHCluster and not (isinstance(factory, type) and issubclass(factory, Cluster)):
        raise InputError(
            f"'class' of a cluster spec is a Dask cluster (a subclass of distributed.deploy.Cluster), such as "
            f"distributed.LocalCluster; {name!r} is none, and was not called"
        )
    return factory


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Ctrl-C waits for the end of the block, and never reaches what is started in it.

    A terminal sends SIGINT to every process. Workers that it ends by themselves fill the screen with tracebacks; the
    client, which gets it too, closes them.
    """
    resource_tracker.ensure_running()  # if it started later, that would unblock the signal
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _client(target: Any, timeout: float) -> Any:
    from distributed import Client

    try:
        if isinstance(target, str) and not target.startswith("inproc://"):
            with ThreadPoolExecutor(1) as pool:  # a thread of its own: a notebook has a running event loop
                pool.submit(asyncio.run, _shake_hands(target, timeout)).result()
        return Client(target, timeout=timeout)
    except Exception as error:  # bytes of another service read as nonsense: anything may come, even MemoryError
        raise ClusterError(
            f"no Dask scheduler answered at {target!r} within {timeout:g} s ({error or type(error).__name__}); check the "
            "address (the scheduler's port, not the dashboard's), that the scheduler runs, that its port is open from here, "
            "and for tls:// that tls= names certificates of the same authority"
        ) from error


async def _shake_hands(address: str, timeout: float) -> None:
    """Raise unless a Dask server answers in time; Dask itself waits forever for one that accepts and is silent."""
    from distributed.comm import connect as open_comm

    arguments = Security().get_connection_args("client")
    comm = await asyncio.wait_for(open_comm(address, timeout=timeout, **arguments), timeout)
    await comm.close()


def _wait(client: Any, workers: int, timeout: Any) -> None:
    if int(workers) < 1:
        return
    seconds = parse_timedelta(timeout)
    try:
        client.wait_for_workers(int(workers), timeout=seconds)
    except TimeoutError as error:
        have = len(client.scheduler_info(n_workers=-1)["workers"])
        raise ClusterError(
            f"{have} of {workers} workers came within {seconds:g} s; check the queue, the worker logs and the network. In a cluster "
            "spec, 'scale' (or 'adapt') asks for workers, and 'wait.timeout' says how long to wait; without a spec "
            "distrf.workers-timeout in Dask's configuration does (DASK_DISTRF__WORKERS_TIMEOUT=300s)"
        ) from error
