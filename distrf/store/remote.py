"""Places behind a URL: options of their file systems, and errors that say where they arose and what is missing there."""

from __future__ import annotations

import errno
import inspect
import os
import re
import socket
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import fsspec
from fsspec.implementations.asyn_wrapper import AsyncFileSystemWrapper

from ..errors import InputError, StoreError

_S3 = (
    "s3fs",
    "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or ~/.aws/credentials",
    "AWS_ENDPOINT_URL, for a store that is not Amazon's",
)
_GS = ("gcsfs", "GOOGLE_APPLICATION_CREDENTIALS", "")
_AZ = ("adlfs", "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY", "")
_HTTP = ("aiohttp", "a URL that is open to read", "")
#: What a machine needs for URLs of a protocol: a package, credentials, an endpoint.
_PROTOCOLS = {
    "s3": _S3, "s3a": _S3, "gs": _GS, "gcs": _GS, "az": _AZ, "abfs": _AZ, "abfss": _AZ, "http": _HTTP, "https": _HTTP,
}  # fmt: skip

#: Options, at any depth, that hold no credentials. There are too many names of those that do: any other one may be one.
_OPEN = {
    "ACL", "ServerSideEncryption", "StorageClass", "access", "account_host", "account_name", "acl",
    "addressing_style", "block_size", "cache_storage", "cache_type", "connect_timeout", "consistency",
    "default_block_size", "default_cache_type", "default_location", "endpoint_url", "host", "http", "https",
    "listings_expiry_time", "location_mode", "max_attempts", "max_concurrency", "max_pool_connections", "mode", "port",
    "profile", "project", "read_timeout", "region", "region_name", "request_checksum_calculation",
    "requests_timeout", "response_checksum_validation", "signature_version", "target_protocol", "timeout", "username",
}  # fmt: skip
#: In a URL: a password, whatever stands before the host of a web server, or what signs a query.
_PASSWORD = re.compile(
    r"://[^/]*:[^/]*@|^https?://[^/]*@|[?&](sig|signature|token|password|x-amz-[a-z-]+|x-goog-[a-z-]+)=",
    re.IGNORECASE,
)
#: What an error means, by the names of its classes, its code in the answer of S3, or its number.
_MEANINGS: dict[str, set[Any]] = {
    "the package of its protocol is missing there ({text}); pip install {package}": {"ImportError"},
    "credentials are missing there ({text}); set {credentials}": {
        "NoCredentialsError", "PartialCredentialsError", "CredentialRetrievalError", "ProfileNotFound",
        "DefaultCredentialsError",
    },
    "access is refused ({text}); check the credentials there ({credentials}) and what they permit{endpoint}": {
        "PermissionError", "ClientAuthenticationError",
    },
    "no answer ({text}); check the network there{endpoint}": {
        "ConnectionError", "HTTPClientError", "ClientConnectionError", "ServiceRequestError",
    },
    "its bucket does not exist ({text}); check the name, or make the bucket": {"NoSuchBucket"},
    "the store is still too busy after all retries ({text}); run the command again later, with fewer workers, or with a higher "
    "AWS_MAX_ATTEMPTS": {errno.EBUSY},
}  # fmt: skip


def connected(path: str, *, asynchronous: bool = False) -> tuple[Any, str]:
    """The file system of a URL, whose errors are explained, and the path inside it.

    Parameters
    ----------
    path : str
    asynchronous : bool
        For Zarr, which awaits what it reads.

    Returns
    -------
    (RemoteFiles, str)

    Raises
    ------
    InputError
        Credentials may be among the options.
    StoreError
        The protocol is not known, or its package is not installed.
    """
    options = options_of(path, getattr(path, "options", None)) | (
        {"asynchronous": True} if asynchronous else {}
    )
    try:
        with explained(path):
            fs, root = fsspec.core.url_to_fs(path, **options)
    except ValueError as error:
        raise StoreError(f"no file system is known for {path!r}: {error}; check the protocol") from error
    if asynchronous and not fs.async_impl:
        fs = AsyncFileSystemWrapper(fs, asynchronous=True)
    return RemoteFiles(fs, path), root


def options_of(path: str, storage_options: Mapping[str, Any] | None) -> dict[str, Any]:
    """The options of a file system: those given, and ours where neither they nor fsspec's configuration say otherwise.

    Parameters
    ----------
    path : str
        A URL.
    storage_options : mapping, optional

    Returns
    -------
    dict

    Raises
    ------
    InputError
        Credentials may be among them, or in the URL: they would travel in every task, and be kept beside what is written.
    """
    given = dict(storage_options or {})
    secrets = sorted(_secrets(given))
    if secrets or _PASSWORD.search(path):
        raise InputError(
            f"credentials come from the environment of each machine, never from a URL or from storage_options, which "
            f"travel in every task; received {', '.join(secrets) or 'a URL with a password or a signature'}; set "
            f"{_needs(path)[1]}, on the workers too; what is no credential goes into fsspec's configuration there"
        )
    # A cached listing would hide blocks that other processes have just written.
    ours: dict[str, Any] = {"use_listings_cache": False}
    protocol = path.partition("://")[0]
    if protocol in ("s3", "s3a"):
        # With more, each read of a whole object asks for its size first. Dask and Zarr read objects beside each other.
        ours["max_concurrency"] = 1
        if not {"AWS_RETRY_MODE", "AWS_MAX_ATTEMPTS"} & set(os.environ):
            # Waits between attempts double, up to 20 s; s3fs makes five rounds of these where it is told to slow down.
            ours["config_kwargs"] = {"retries": {"mode": "standard", "max_attempts": 4}}
    configured = fsspec.config.conf.get(protocol, {})
    return {name: value for name, value in ours.items() if name not in configured} | given


def _secrets(options: Mapping[str, Any], where: str = "") -> Iterator[str]:
    """Names of the options that may hold credentials; true, false and what is empty are none."""
    for name, value in options.items():
        if isinstance(value, Mapping):
            yield from _secrets(value, f"{where}{name}.")
        elif not value or value is True or (name, value) == ("token", "anon"):
            continue
        elif name not in _OPEN or _PASSWORD.search(str(value)):
            yield f"{where}{name}"


@contextmanager
def explained(path: str) -> Iterator[None]:
    """Raise what `explain` makes of an error; others pass."""
    try:
        yield
    except Exception as error:
        known = explain(path, error)
        if known is None:
            raise
        raise known from error


def explain(path: str, error: BaseException) -> StoreError | None:
    """What an error of an object store means: on which machine it arose, and which setting is missing there.

    Parameters
    ----------
    path : str
        A URL.
    error : Exception

    Returns
    -------
    StoreError, or None for another error
    """
    signs = {kind.__name__ for kind in type(error).__mro__} | {code_of(error), getattr(error, "errno", None)}
    package, credentials, endpoint = _needs(path)
    for meaning, names in _MEANINGS.items():
        if signs & names:
            what = meaning.format(
                text=f"{type(error).__name__}: {error}", package=package, credentials=credentials,
                endpoint=endpoint and f", and the endpoint ({endpoint})",
            )  # fmt: skip
            return StoreError(f"{_here()} cannot reach {path!r}: {what}")
    return None


def code_of(error: BaseException) -> str:
    """The code of an error that S3 answered with, "" for others; not every server sends a message with it."""
    response = getattr(error.__cause__, "response", None) or {}
    return str(response.get("Error", {}).get("Code", ""))


def _needs(path: str) -> tuple[str, str, str]:
    name = path.partition("://")[0].rsplit("::", 1)[-1]
    return _PROTOCOLS.get(name, (f"the fsspec package of {name}://", f"what {name}:// needs", ""))


def _here() -> str:
    """This machine in words, as a worker where it is one: settings may differ between workers and the client."""
    host = socket.gethostname()
    distributed = sys.modules.get("distributed")  # what has not been imported runs no worker
    try:
        return f"the worker {distributed.get_worker().address} on {host}"  # type: ignore[union-attr]
    except (AttributeError, ValueError):
        return f"this machine ({host})"


class RemoteFiles:
    """An fsspec file system, also below a Zarr store, whose errors are explained.

    So a bucket that is gone raises StoreError, and is not taken for a missing chunk.

    Parameters
    ----------
    fs : fsspec.AbstractFileSystem
    path : str
        The URL that it was made for.
    """

    def __init__(self, fs: Any, path: str):
        self._fs, self._path = fs, path

    def __getattr__(self, name: str) -> Any:
        if name in ("_fs", "_path"):  # while a copy is made
            raise AttributeError(name)
        found = getattr(self._fs, name)
        if not callable(found):
            return found

        def call(*args: Any, **options: Any) -> Any:
            with explained(self._path):
                result = found(*args, **options)
            return self._awaited(result) if inspect.iscoroutine(result) else result

        return call

    async def _awaited(self, coroutine: Any) -> Any:
        with explained(self._path):
            return await coroutine
