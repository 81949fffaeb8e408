"""The memory of the machine, and what its control groups leave of it."""

from __future__ import annotations

import psutil
import pytest

from distrf.execution import memory

MIB = 2**20


@pytest.mark.parametrize(
    ("own", "limits", "expected"),
    [
        ("0::/a/b", {"a/b/memory.max": "max", "a/memory.max": f"{400 * MIB}"}, 400 * MIB),
        ("0::/", {"memory.max": f"{500 * MIB}"}, 500 * MIB),
        ("0::/", {}, None),
        (
            "4:cpu,memory:/job\n1:cpu:/\n0::/",
            {"memory/job/memory.limit_in_bytes": "7", "memory/memory.limit_in_bytes": "9"},
            7,
        ),
        ("4:memory:/outside/of/it", {"memory/memory.limit_in_bytes": f"{300 * MIB}"}, 300 * MIB),
        ("4:memory:/", {"memory/memory.limit_in_bytes": "9223372036854771712"}, None),
        (None, {}, None),
    ],
    ids=["v2", "v2-container", "v2-none", "v1", "v1-container", "v1-none", "no-groups"],
)
def test_the_least_limit_of_the_groups(monkeypatch, tmp_path, own, limits, expected):
    if own is not None:
        (tmp_path / "own").write_text(own + "\n")
    for name, value in limits.items():
        path = tmp_path / "groups" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(value + "\n")
    monkeypatch.setattr(memory, "_OWN", tmp_path / "own")
    monkeypatch.setattr(memory, "_GROUPS", str(tmp_path / "groups"))
    assert memory.machine_memory() == (expected or psutil.virtual_memory().total)
