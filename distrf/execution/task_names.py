"""What Dask's dashboard calls the tasks of a phase, and the span that it sums them up in.

Dask groups tasks by the words before the first word of a key with a digit. So the key of a task is the name of its phase,
what the task does, and numbers: `gram-sum-<hex>-0-2` is a `gram-sum`. The scheduler also estimates run times by these names.
"""

from __future__ import annotations

import re
import uuid
from typing import Any

import dask
from dask.utils import key_split

from .progress import split_label

#: The span of all phases, unless the caller is in a span.
_ROOT = {"name": ("distrf",), "ids": (str(uuid.uuid4()),)}


def task_name(label: str) -> str:
    """The name of the tasks of a phase: the words of its label, which Dask keeps whole.

    Parameters
    ----------
    label : str
        As in progress displays, with or without a remark.

    Returns
    -------
    str
        Small letters, words joined by "-". Dask takes a word of eight letters from a to f on for a number, unless it is joined
        by "_".

    Examples
    --------
    >>> task_name("gradient|loss 0.01"), task_name("featurize alternating_circulant")
    ('gradient', 'featurize-alternating-circulant')
    """
    words = re.findall("[a-z]+", split_label(label)[0].lower()) or ["pass"]
    name = "-".join(words)
    return name if key_split(name) == name else "_".join(words)


def span_of(name: str) -> dict[str, Any]:
    """The annotation that puts tasks into the span of a phase, below the span of the caller or below "distrf".

    A phase has the same span however often it runs. Otherwise the scheduler and the workers would keep counts of each batch of
    SGD while they live: 3,400 counts after 1,100 batches, against 40.

    Parameters
    ----------
    name : str
        Of `task_name`.

    Returns
    -------
    dict
        For ``dask.annotate(span=...)``, as `distributed.span` makes it.
    """
    above = dask.get_annotations().get("span") or _ROOT
    own = str(uuid.uuid5(uuid.NAMESPACE_OID, f"{above['ids'][-1]}/{name}"))
    return {"name": (*above["name"], name), "ids": (*above["ids"], own)}
