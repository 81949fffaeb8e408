"""Which worker gets the next segment."""

from __future__ import annotations

import pytest

from distrf.execution import crew as module
from distrf.execution.crew import Crew


class Clock:
    def __init__(self):
        self.now = 100.0

    def monotonic(self):
        return self.now


class FakeClient:
    def __init__(self, **threads):
        self.threads = threads

    def nthreads(self):
        return dict(self.threads)


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    return clock


def work(clock, client, seconds, segments, until=None):
    """Run segments on workers that take `seconds` each; returns the time of the end, and segments by worker."""
    crew, left, running, done = Crew(client), list(range(segments)), [], dict.fromkeys(seconds, 0)
    began = clock.now
    while left or running:
        if until:
            until(clock.now - began)
        while left and (worker := crew.choose(len(left))):
            segment = left.pop(0)
            crew.begin(segment, worker)
            busy = sorted(end for end, w, _ in running if w == worker)
            free = client.threads[worker] - len(busy)
            start = clock.now if free > 0 else busy[-client.threads[worker]]
            running.append((start + seconds[worker], worker, segment))
        running.sort()
        end, worker, segment = running.pop(0)
        clock.now = end
        done[worker] += 1
        crew.finish(segment)
        assert crew.running == len(running)
    return clock.now - began, done


def test_threads_of_all_workers_are_used(clock):
    wall, done = work(clock, FakeClient(a=2, b=1), {"a": 3.0, "b": 3.0}, 30)
    assert wall == 30.0
    assert done == {"a": 20, "b": 10}


@pytest.mark.parametrize("segments", [32, 64, 100, 128])
def test_a_slow_worker_costs_little(clock, segments):
    names = list("abcdefgh")
    seconds = {name: 5.0 if name == "a" else 1.0 for name in names}
    wall, done = work(clock, FakeClient(**dict.fromkeys(names, 1)), seconds, segments)
    assert wall <= 1.2 * segments / 7.2
    assert done["a"] >= 1


def test_those_that_join_get_their_share_and_those_that_leave_none(clock):
    client = FakeClient(a=1, b=1)
    seconds = dict.fromkeys("abcd", 2.0)

    def change(now):
        client.threads = {"c": 1, "d": 1, "b": 1} if now > 20 else {"a": 1, "b": 1}

    wall, done = work(clock, client, seconds, 60, change)
    assert done["a"] == 11
    assert min(done["c"], done["d"]) > 10
    assert wall < 20 + 38 / 3 * 2 + 4


def test_short_segments_wait_at_their_worker(clock):
    """Else threads would idle while the client answers."""
    crew = Crew(FakeClient(a=4))
    assert [crew.choose(9) for _ in range(4) if crew.begin(_, "a") is None][-1] is None
    clock.now += 0.1
    crew.finish(0)
    taken = 0
    while crew.choose(9):
        crew.begin(("more", taken), "a")
        taken += 1
    assert taken == 2  # for the thread that is free, and one ahead


def test_without_workers_one_segment_waits_for_any(clock):
    client = FakeClient()
    crew = Crew(client)
    assert crew.choose(3) == ""
    crew.begin(0, "")
    assert crew.choose(2) is None
    client.threads = {"a": 1}
    clock.now += 1
    assert crew.choose(2) == "a"
