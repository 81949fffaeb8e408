"""Options that several commands share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from .signatures import Place, as_number


@dataclass(frozen=True, kw_only=True)
class CheckpointOptions:
    """Where the state of a training is kept.

    Parameters
    ----------
    checkpoint : Place or None
        Folder that keeps the state of SGD, each pass of cg and tefm, and of cnm.
    checkpoint_every : int or None
        Batches of SGD between two states; 50 by default.
    resume : bool
        Continue from --checkpoint, to the same bits; starts if it is empty; a model that is done is success.
    """

    panel: ClassVar[str] = "Model"
    checkpoint: Place | None = None
    checkpoint_every: int | str | None = None
    resume: bool = False

    @property
    def every(self) -> Any:
        """The number of batches."""
        return None if self.checkpoint_every is None else as_number(str(self.checkpoint_every))


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """Where a command runs and what it prints.

    Parameters
    ----------
    cluster : Place or None
        Scheduler address, cluster spec file, local, or none for threads of this process. Default: none for little work
        on small data, else local.
    memory_limit : str or None
        Memory of one local worker, such as 4GiB.
    tls : Place or None
        Folder with ca.pem, cert.pem and key.pem: encrypt, and let in only who has such a certificate.
    quiet : bool
        No progress and no result; warnings stay.
    json : bool
        Print the result as JSON.
    """

    panel: ClassVar[str] = "Run"
    cluster: Place | None = None
    memory_limit: str | None = None
    tls: Place | None = None
    quiet: bool = False
    json: bool = False

    @property
    def where(self) -> dict[str, Any]:
        """The arguments of `distrf.connect`."""
        return {"cluster": self.cluster, "memory_limit": self.memory_limit, "tls": self.tls}


NO_FEATURES = "featurize needs a map; --map none has no features"
