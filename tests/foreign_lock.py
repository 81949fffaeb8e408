"""The lock file of a job on another machine."""

from __future__ import annotations

FOREIGN = {
    "token": "other",
    "host": "far",
    "machine": "far boot",
    "pid": 7,
    "born": "1",
    "since": "noon",
    "seen": "one",
}
