"""Options of file systems: those that may hold credentials are refused, whatever their names."""

from __future__ import annotations

import pickle

import pytest

from distrf.errors import InputError
from distrf.store.files import filesystem, normalise
from distrf.store.remote import options_of

#: Names of options, at any depth, and values.
SECRETS = {
    **dict.fromkeys(
        ("key", "secret", "token", "account_key", "sas_token", "sas", "connection_string", "ConnectionString", "client_secret",
         "passwd", "password", "pass", "pwd", "passphrase", "key_filename", "bearer", "apikey", "accessKeyId",
         "service_account_json", "client_kwargs.aws_access_key_id", "client_kwargs.aws_session_token", "s3.secret",
         "s3_additional_kwargs.SSECustomerKey", "headers.X-Api-Key", "client_kwargs.cookies.session"), "x"),
    "config_kwargs.proxies.https": "http://me:x@proxy:80", "endpoint_url": "https://me:x@host:9000",
    "session": object(), "credential": object(), "client_kwargs.auth": ("me", "x"), "headers.Authorization": "Bearer x",
    "client_kwargs.headers.authorization": "Bearer x", "headers.Cookie": "session=x",
}  # fmt: skip


def nested(name, value):
    for part in reversed(name.split(".")):
        value = {part: value}
    return value


@pytest.mark.parametrize("name", SECRETS)
def test_options_that_may_hold_credentials(name):
    with pytest.raises(InputError, match=rf"from the environment of each machine.*received {name};") as caught:
        options_of("s3://bucket/a.zarr", nested(name, SECRETS[name]) | {"username": "me"})
    assert "Bearer" not in str(caught.value)
    with pytest.raises(InputError):
        filesystem(normalise("s3://bucket/a.zarr", nested(name, SECRETS[name])))


@pytest.mark.parametrize("url", [
    "https://me:x@host/a.csv", "ftp://me:x@host/a.csv", "https://x@host/a.csv", "https://host/a.csv?X-Amz-Signature=x",
    "https://host/a.csv?sv=1&sig=x",
])  # fmt: skip
def test_a_url_with_a_password(url):
    with pytest.raises(InputError, match="received a URL with a password"):
        options_of(url, None)
    assert options_of("abfs://container@account.dfs.core.windows.net/a.csv?version=1", None)


def test_a_place_carries_its_options():
    """Also to a worker; they are no part of what is compared."""
    place = normalise("memory://bucket/a.zarr/", {"anon": True})
    for same in (place, normalise(place), pickle.loads(pickle.dumps(place))):
        assert (same, same.options) == ("memory://bucket/a.zarr", {"anon": True})
        assert filesystem(same)[0].storage_options["anon"]
    with pytest.raises(InputError, match="received secret;"):
        filesystem(normalise(place, {"secret": "x"}))
