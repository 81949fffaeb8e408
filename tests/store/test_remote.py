"""Options of file systems: those that may hold credentials are refused, whatever their names."""

from __future__ import annotations

import pytest

from distrf.errors import InputError
from distrf.store.files import filesystem
from distrf.store.remote import options_of

SECRETS = {
    "key": {"key": "x"},
    "secret": {"secret": "x"},
    "token": {"token": "x"},
    "client_kwargs.aws_access_key_id": {"client_kwargs": {"aws_access_key_id": "x"}},
    "client_kwargs.aws_session_token": {"client_kwargs": {"aws_session_token": "x"}},
    "s3_additional_kwargs.SSECustomerKey": {"s3_additional_kwargs": {"SSECustomerKey": "x"}},
    "config_kwargs.proxies.https": {"config_kwargs": {"proxies": {"https": "http://me:x@proxy:80"}}},
    "endpoint_url": {"endpoint_url": "https://me:x@host:9000"},
    "session": {"session": object()},
    "account_key": {"account_key": "x"},
    "sas_token": {"sas_token": "x"},
    "sas": {"sas": "x"},
    "credential": {"credential": object()},
    "connection_string": {"connection_string": "x"},
    "ConnectionString": {"ConnectionString": "x"},
    "client_secret": {"client_secret": "x"},
    "headers.Authorization": {"headers": {"Authorization": "Bearer x"}},
    "client_kwargs.headers.authorization": {"client_kwargs": {"headers": {"authorization": "Bearer x"}}},
    "headers.X-Api-Key": {"headers": {"X-Api-Key": "x"}},
    "headers.Cookie": {"headers": {"Cookie": "session=x"}},
    "client_kwargs.auth": {"client_kwargs": {"auth": ("me", "x")}},
    "client_kwargs.cookies.session": {"client_kwargs": {"cookies": {"session": "x"}}},
    "passwd": {"passwd": "x"},
    "password": {"username": "me", "password": "x"},
    "pass": {"pass": "x"},
    "pwd": {"pwd": "x"},
    "passphrase": {"passphrase": "x"},
    "key_filename": {"key_filename": "id_rsa"},
    "bearer": {"bearer": "x"},
    "apikey": {"apikey": "x"},
    "accessKeyId": {"accessKeyId": "x"},
    "service_account_json": {"service_account_json": "{}"},
    "s3.secret": {"s3": {"secret": "x"}, "simplecache": {"cache_storage": "/tmp"}},
}


@pytest.mark.parametrize("name", SECRETS)
def test_options_that_may_hold_credentials(name):
    with pytest.raises(InputError, match=rf"from the environment of each machine.*received {name};") as caught:
        options_of("s3://bucket/a.zarr", SECRETS[name])
    assert "Bearer" not in str(caught.value)
    with pytest.raises(InputError):
        filesystem("s3://bucket/a.zarr", SECRETS[name])


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"anon": True, "endpoint_url": "https://host:9000", "client_kwargs": {"region_name": "eu-west-1", "verify": False}},
        {"config_kwargs": {"retries": {"mode": "standard", "max_attempts": 4}, "s3": {"addressing_style": "path"}}},
        {"project": "p", "requester_pays": True, "access": "read_only"},
        {"account_name": "me", "key": None, "token": ""},
        {"s3": {"anon": True}, "simplecache": {"cache_storage": "/tmp"}},
        {"token": "anon", "acl": "bucket-owner-full-control", "s3_additional_kwargs": {"ServerSideEncryption": "AES256"}},
        {"config_kwargs": {"request_checksum_calculation": "when_required", "proxies": {"https": "http://proxy:80"}}},
    ],
)  # fmt: skip
def test_other_options_pass(options):
    assert options_of("gs://bucket/a.zarr", options).items() >= options.items()


@pytest.mark.parametrize("url", [
    "https://me:x@host/a.csv", "ftp://me:x@host/a.csv", "https://x@host/a.csv", "https://host/a.csv?X-Amz-Signature=x",
    "https://host/a.csv?sv=1&sig=x",
])  # fmt: skip
def test_a_url_with_a_password(url):
    with pytest.raises(InputError, match="received a URL with a password"):
        options_of(url, None)
    assert options_of("abfs://container@account.dfs.core.windows.net/a.csv?version=1", None)
