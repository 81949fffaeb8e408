"""Locks of outputs: one job at a time, and none that a killed one leaves behind on a file system."""

from __future__ import annotations

import contextvars
import subprocess
import sys

import pytest

from distrf.errors import InUseError
from distrf.store.outputs import hold

HOLDER = """
import sys
from distrf.store.outputs import hold
with hold(sys.argv[1]):
    print("held", flush=True)
    sys.stdin.readline()
"""


def as_another_job(*outputs, **options):
    def job():
        with hold(*outputs, **options):
            pass

    contextvars.Context().run(job)


def test_the_second_is_refused(tmp_path):
    with hold(tmp_path / "a", tmp_path / "b", "s3://bucket/c"):
        with hold(tmp_path / "a", None):  # by the same job, which calls another function
            pass
        for outputs in ([f"{tmp_path}/a/"], [tmp_path / "c", tmp_path / "b"]):
            with pytest.raises(InUseError, match="written by another job"):
                as_another_job(*outputs)
        assert {path.name for path in tmp_path.iterdir()} == {".a.lock", ".b.lock"}
    with pytest.raises(KeyboardInterrupt), hold(tmp_path / "a"):
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []
    as_another_job(tmp_path / "a")


def test_a_killed_process_blocks_nobody(tmp_path):
    words = [sys.executable, "-c", HOLDER, str(tmp_path / "out")]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"held\n"
        with pytest.raises(InUseError, match="written by another job"):
            as_another_job(tmp_path / "out")
        process.kill()
    as_another_job(tmp_path / "out")
    assert list(tmp_path.iterdir()) == []
