"""One job writes an output: the second is refused, one that died is replaced, and one that lost its lock stops."""

from __future__ import annotations

import contextvars
import json
import os
import subprocess
import sys
import threading
import time
import uuid
from types import SimpleNamespace

import pytest
from foreign_lock import FOREIGN

from distrf.errors import InUseError
from distrf.store import files, job_lock
from distrf.store.job_lock import check, held, hold


@pytest.fixture
def looks(monkeypatch):
    """What is done between two looks at a lock, by their number; and the seconds that they would have taken."""
    found = SimpleNamespace(between={}, seconds=[])

    def sleep(seconds):
        found.seconds.append(seconds)
        found.between.get(len(found.seconds), lambda: None)()

    monkeypatch.setattr(job_lock.time, "sleep", sleep)
    return found


@pytest.fixture
def jump(monkeypatch):
    """One of the two clocks goes on, as when the machine sleeps."""
    now, hours = time.time(), []
    monkeypatch.setattr(job_lock.time, "time", lambda: now + 3600 * len(hours))
    return lambda: hours.append(1)


@pytest.fixture(params=["disk", "memory"])
def place(request, tmp_path):
    """An output and its lock file, on disk and where creation is conditional."""
    folder = str(tmp_path) if request.param == "disk" else f"memory://{uuid.uuid4().hex}"
    fs, root = files.filesystem(f"{folder}/.out.zarr.lock")
    return f"{folder}/out.zarr", fs, root


def put(place, **record):
    files.write_json(place[1], place[2], FOREIGN | record)


def as_another_job(*outputs):
    def job():
        with hold(*outputs):
            pass

    contextvars.Context().run(job)


def test_the_second_is_refused(place):
    out, fs, root = place
    with hold(out):
        record = files.read_json(fs, root)
        assert record["pid"] == os.getpid()
        held_here = held()
        with hold(out, None):  # by the same job, which calls another function
            assert held() == held_here

        with pytest.raises(InUseError) as refused:
            as_another_job(f"{out}/")
        for part in (
            f"process {os.getpid()} on {record['host']}",
            record["since"],
            "last sign of life",
            "stop it",
        ):
            assert part in str(refused.value)
        assert files.read_json(fs, root) == record
    assert files.read_json(fs, root) is None
    assert held() == ()


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


def test_links_to_one_output(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    with hold(tmp_path / "real"), hold(tmp_path / "link"):
        assert len(held()) == 1
    assert {p.name for p in tmp_path.iterdir()} == {"real", "link"}


def test_the_root_of_a_bucket_has_no_lock():
    with hold("s3://bucket"):
        assert held() == ()


def test_a_process_that_is_gone_is_replaced_at_once(place, monkeypatch):
    out, fs, root = place
    here = {"machine": job_lock._machine(), "user": job_lock._user(), "host": "here"}
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        born = job_lock._born(process.pid)
        put(place, pid=process.pid, born=born, **here)
        with pytest.raises(InUseError, match=f"process {process.pid} on here"), hold(out):
            pass
        process.kill()
        while job_lock._born(process.pid) is not None:  # then it is a zombie
            time.sleep(0.01)
    monkeypatch.setattr(time, "sleep", None)
    for gone in ({"pid": process.pid, "born": born}, {"pid": os.getpid(), "born": "0"}, {"pid": os.getpid()}):
        put(place, **{"born": job_lock._born(os.getpid())} | gone, **here)
        with hold(out):
            assert files.read_json(fs, root)["token"] == held()[0].token
    assert files.names_in(fs, os.path.dirname(root)) == set()


def test_another_machine_is_watched(place, looks):
    """Only whether the file changes counts: its times are those of another clock."""
    out, fs, root = place
    put(place, seen="2999-01-01")
    with hold(out):
        assert sum(looks.seconds) == pytest.approx(job_lock.STALE)
        assert files.read_json(fs, root)["token"] == held()[0].token
    looks.seconds.clear()
    put(place, seen="1970-01-01")
    looks.between[3] = lambda: put(place, seen="1970-01-02")
    with (
        pytest.raises(InUseError, match="process 7 on far, since noon, last sign of life 1970-01-02"),
        hold(out),
    ):
        pass
    assert sum(looks.seconds) < job_lock.BEAT
    looks.seconds.clear()
    looks.between[3] = lambda: fs.rm_file(root)  # it ends
    with hold(out):
        assert len(looks.seconds) == 3


@pytest.mark.slow
def test_the_owner_renews(place, monkeypatch):
    out, fs, root = place
    monkeypatch.setattr(job_lock, "BEAT", 0.01)
    with hold(out):
        record = files.read_json(fs, root)
        monkeypatch.setattr(job_lock, "_alive", lambda record: None)  # as from another machine
        with pytest.raises(InUseError, match="being written by"):
            as_another_job(out)
        assert files.read_json(fs, root)["beats"] > record["beats"]


def test_of_many_that_find_a_dead_job_one_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr(job_lock, "STALE", 0.1)
    out = tmp_path / "out"
    (tmp_path / ".out.lock").write_text(json.dumps(FOREIGN))
    found, ready = [], threading.Barrier(8)

    def job():
        ready.wait()
        try:
            with hold(out):
                found.append("held")
                while len(found) < 8:
                    time.sleep(0.01)
                check()
        except InUseError:
            found.append("refused")

    threads = [threading.Thread(target=job) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert sorted(found) == ["held", *["refused"] * 7]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("how", ["taken", "removed"])
def test_an_owner_that_lost_it_stops(place, jump, how):
    out, fs, root = place
    with hold(out):
        put(place) if how == "taken" else fs.rm_file(root)
        check()  # it has looked just now
        jump()
        who = "process 7 on far" if how == "taken" else "another job"
        for _ in range(2):  # it does not forget
            with pytest.raises(InUseError, match=f"no longer holds .*writes nothing more.* {who}"):
                check()
    assert files.read_json(fs, root) == (FOREIGN if how == "taken" else None)


def test_a_worker_looks_now_and_then(place, jump, monkeypatch):
    """It finds another owner, and takes no offence at a file that it does not see, nor at no answer."""
    out, fs, root = place
    claim = job_lock.Claim(out, out.replace("out.zarr", ".out.zarr.lock"), uuid.uuid4().hex)
    put(place)
    claim.check()
    jump()
    with pytest.raises(InUseError, match="process 7 on far"):
        claim.check()
    fs.rm_file(root)
    claim.check()
    put(place)
    jump()
    monkeypatch.setattr(job_lock.files, "read_object", lambda *args: (_ for _ in ()).throw(OSError()))
    claim.check()


def test_half_a_file_is_not_a_dead_job(tmp_path, looks):
    lock = tmp_path / ".out.lock"
    lock.write_text('{"tok')
    looks.between[2] = lambda: lock.write_text(json.dumps(FOREIGN))
    with pytest.raises(InUseError, match="process 7 on far"), hold(tmp_path / "out"):
        pass
    lock.write_text('{"tok')
    with hold(tmp_path / "out"):
        pass


def test_an_answer_that_was_lost(tmp_path, monkeypatch):
    """An object store was asked again, and says that the file is there: it is ours."""
    monkeypatch.setattr(files, "create_json", lambda *args: files.write_json(*args) or False)
    with hold(tmp_path / "out"):
        assert len(list(tmp_path.iterdir())) == 1
    assert list(tmp_path.iterdir()) == []


def test_a_small_job_pays_a_few_operations(tmp_path, monkeypatch):
    """On an object store: one conditional write, one read and one removal."""
    asked = []

    class Counted:
        def __init__(self, fs):
            self._fs = fs

        def __getattr__(self, name):
            asked.append(name)
            return getattr(self._fs, name)

    real = files.filesystem
    monkeypatch.setattr(files, "filesystem", lambda *args: (Counted(real(*args)[0]), real(*args)[1]))
    with hold("memory://few/out"):
        for _ in range(10):
            check()
    assert asked == ["pipe_file", "cat_file", "rm_file"]


def test_a_place_that_must_not_be_written_gets_no_lock(tmp_path, monkeypatch, caplog):
    """Such as a bucket of which one folder may be written; the job runs, and says so."""

    def refused(*_):
        raise PermissionError("Access Denied")

    monkeypatch.setattr(files, "create_json", refused)
    with hold(tmp_path / "out"):
        assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "gets no lock" in caplog.text
    assert not list(tmp_path.iterdir())


def test_a_full_disk_leaves_no_files(tmp_path, monkeypatch):
    fs, root = files.filesystem(str(tmp_path / "x.json"))

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="No space left"):
        files.write_json(fs, root, {})
    assert not list(tmp_path.iterdir())
