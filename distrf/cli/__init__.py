"""The `distrf` command."""

from __future__ import annotations


def main() -> None:
    """Entry point: runs the command line and leaves with 0, 1 (failure) or 2 (usage)."""
    from .app import run

    run()


__all__ = ["main"]
