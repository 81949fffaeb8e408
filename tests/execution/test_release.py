"""A worker that would make other numbers is refused by name: another release, other weights, or no distrf at all."""

from __future__ import annotations

import pytest
from fits import FakeClient

import distrf
from distrf.errors import ClusterError
from distrf.execution.workers import check_release


def answers(own=distrf.__version__, **workers):
    """A client that was installed with this release, or runs from a folder, and workers that have these."""
    return FakeClient(distrf=own, workers={name: {"distrf": version} for name, version in workers.items()})


def test_workers_are_asked_when_they_come():
    client = answers(a=distrf.__version__)
    for _ in range(2):
        check_release(client, client.nthreads())
    assert client.asked == 1
    client.workers["b"] = {}
    with pytest.raises(ClusterError, match=r"of the client, .*; the worker b has no distrf\. Install distrf=="):
        check_release(client, client.nthreads())
    # Where the client runs from a folder, b runs from one too, or its first task says that it has no distrf.
    check_release(answers(None, a=distrf.__version__, b=None), "ab")
    with pytest.raises(ClusterError, match=r"of the client, .*; the worker a has distrf 0\.0\.9\. Install"):
        check_release(answers(None, a="0.0.9"), "a")
