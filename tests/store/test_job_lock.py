"""Locks of outputs: one job at a time, and none that a killed one leaves behind on a file system."""

from __future__ import annotations

import contextvars
import errno
import json
import os
import re
import subprocess
import sys
import threading
import time
import uuid
from pathlib import Path

import pytest

from distrf.errors import InUseError
from distrf.store import files, job_lock
from distrf.store.job_lock import hold

HOLDER = """
import sys
from distrf.store.job_lock import hold
with hold(sys.argv[1]):
    print("held", flush=True)
    sys.stdin.readline()
"""


@pytest.fixture(params=["disk", "no flock", "memory"])
def place(request, tmp_path, monkeypatch):
    """An output and its lock file: where files are locked, and where creation is conditional."""

    def refused(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    if request.param == "no flock":
        monkeypatch.setattr(job_lock.fcntl, "flock", refused)
    folder = f"memory://{uuid.uuid4().hex}" if request.param == "memory" else str(tmp_path)
    fs, root = files.filesystem(f"{folder}/.out.zarr.lock")
    return f"{folder}/out.zarr", fs, root


def as_another_job(*outputs, **options):
    def job():
        with hold(*outputs, **options):
            pass

    contextvars.Context().run(job)


def test_the_second_is_refused(place):
    out, fs, root = place
    with hold(out):
        record = files.read_json(fs, root)
        with hold(out, None):  # by the same job, which calls another function
            pass
        with pytest.raises(
            InUseError,
            match=re.escape(f"process {os.getpid()} on {record['host']}, since {record['since']}; let"),
        ):
            as_another_job(f"{out}/")
        assert files.read_json(fs, root) == record
    assert not fs.exists(root)
    as_another_job(out)


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_removed_at_errors(tmp_path, error):
    def failing():
        with hold(tmp_path / "a", tmp_path / "b"):
            assert len(list(tmp_path.iterdir())) == 2
            raise error

    with pytest.raises(error):
        failing()
    assert list(tmp_path.iterdir()) == []
    with hold(tmp_path / "b"), pytest.raises(InUseError):
        as_another_job(tmp_path / "a", tmp_path / "b")
    assert list(tmp_path.iterdir()) == []


def test_links_to_one_output_and_the_root_of_a_bucket(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    with hold(tmp_path / "real", "s3://bucket"), pytest.raises(InUseError):
        as_another_job(tmp_path / "link")
    assert {p.name for p in tmp_path.iterdir()} == {"real", "link"}


def test_a_killed_process_blocks_nobody(tmp_path):
    words = [sys.executable, "-c", HOLDER, str(tmp_path / "out")]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"held\n"
        with pytest.raises(InUseError, match=f"being written by process {process.pid} on"):
            as_another_job(tmp_path / "out")
        process.kill()
    assert (tmp_path / ".out.lock").exists()
    as_another_job(tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("place", ["no flock", "memory"], indirect=True)
def test_what_a_killed_job_has_left_is_taken_over_when_that_is_said(place):
    out, fs, root = place
    for left, who in [
        ({"token": "other", "host": "far", "pid": 7, "since": "noon"}, "process 7 on far, since noon"),
        ({}, "another job"),
    ]:
        files.write_json(fs, root, left)
        with pytest.raises(InUseError, match=rf"written by {who}; .*If it was killed, remove .*overwrite=True"):
            as_another_job(out)
        as_another_job(out, takeover=True)
        assert not fs.exists(root)
    with hold(out):
        files.write_json(fs, root, {"token": "other"})  # another job took it over: the file is its own
    assert fs.exists(root)


def test_of_many_at_once_one_goes_on(tmp_path):
    found, ready = [], threading.Barrier(8)

    def job():
        for _ in range(30):
            ready.wait()
            try:
                with hold(tmp_path / "out"):
                    found.append("held")
                    assert found.count("held") - found.count("ended") == 1
                    time.sleep(0.001)
                    found.append("ended")
            except InUseError:
                pass

    threads = [threading.Thread(target=job) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert found.count("held") == found.count("ended") >= 30
    assert list(tmp_path.iterdir()) == []


def test_the_owner_ends_while_another_one_opens_the_file(tmp_path, monkeypatch):
    """It would lock a file that is no longer there, beside a third job that locks a new one."""
    lock, real, opened = tmp_path / ".out.lock", os.open, []

    def late(path, *args):
        file = real(path, *args)
        if Path(path) == lock and not opened:
            opened.append(file)
            lock.unlink()
        return file

    monkeypatch.setattr(os, "open", late)
    with hold(tmp_path / "out"):
        assert json.loads(lock.read_text())["pid"] == os.getpid()
        with pytest.raises(InUseError):
            as_another_job(tmp_path / "out")


def test_a_file_that_could_not_be_removed(monkeypatch):
    """The store refused whatever was asked; the same process tries again later."""
    with monkeypatch.context() as context, hold("memory://refused/out"):
        context.setattr(files, "read_object", lambda *args: (_ for _ in ()).throw(OSError()))
    as_another_job("memory://refused/out")
    assert files.names_in(*files.filesystem("memory://refused")) == set()


def test_an_answer_that_was_lost(monkeypatch):
    """An object store was asked again, and says that the file is there: it is ours."""
    monkeypatch.setattr(files, "create_json", lambda *args: files.write_json(*args) or False)
    with hold("memory://lost/out"):
        pass
    assert files.names_in(*files.filesystem("memory://lost")) == set()


def test_a_place_that_must_not_be_written_gets_no_lock(monkeypatch, caplog):
    """Such as a bucket of which one folder may be written; the job runs, and says so."""

    def refused(*_):
        raise PermissionError("Access Denied")

    monkeypatch.setattr(files, "create_json", refused)
    with hold("memory://refused/out"):
        assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "gets no lock" in caplog.text


def test_a_full_disk_leaves_no_files(tmp_path, monkeypatch):
    fs, root = files.filesystem(str(tmp_path / "x.json"))

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="No space left"):
        files.write_json(fs, root, {})
    assert not list(tmp_path.iterdir())
