"""Locks of outputs: one job at a time, and none that a killed one leaves behind on a file system."""

from __future__ import annotations

import contextvars
import subprocess
import sys
import uuid

import pytest

from distrf.errors import InUseError
from distrf.store import files
from distrf.store.job_lock import hold

HOLDER = """
import sys
from distrf.store.job_lock import hold
with hold(sys.argv[1]):
    print("held", flush=True)
    sys.stdin.readline()
"""


def as_another_job(*outputs, **options):
    def job():
        with hold(*outputs, **options):
            pass

    contextvars.Context().run(job)


@pytest.mark.parametrize("place", ["disk", "memory"])
def test_the_second_is_refused(tmp_path, place):
    folder = f"memory://{uuid.uuid4().hex}" if place == "memory" else str(tmp_path)
    fs, root = files.filesystem(folder)
    with hold(f"{folder}/a", f"{folder}/b", "s3://bucket"):
        with hold(f"{folder}/a", None):  # by the same job, which calls another function
            pass
        for outputs in ([f"{folder}/a/"], [f"{folder}/c", f"{folder}/b"]):
            with pytest.raises(InUseError, match="written by another job"):
                as_another_job(*outputs)
        assert files.names_in(fs, root) == {".a.lock", ".b.lock"}
    with pytest.raises(KeyboardInterrupt), hold(f"{folder}/a"):
        raise KeyboardInterrupt
    assert files.names_in(fs, root) == set()
    as_another_job(f"{folder}/a")


def test_a_killed_process_blocks_nobody(tmp_path):
    words = [sys.executable, "-c", HOLDER, str(tmp_path / "out")]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"held\n"
        with pytest.raises(InUseError, match="written by another job"):
            as_another_job(tmp_path / "out")
        process.kill()
    as_another_job(tmp_path / "out")
    assert list(tmp_path.iterdir()) == []
