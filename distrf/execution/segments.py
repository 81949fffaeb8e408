"""The task of a segment: it makes its blocks one after the other, adds each to its state, and tries again where reading fails."""

from __future__ import annotations

import copy
import errno
import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, Self

import cloudpickle

from ..errors import DistrfError, InputError
from ..progress import report
from .graph import Task, TaskRef, aligned
from .row_blocks import shared_arrays

#: Seconds to wait before the first, second and third retry of a segment whose rows could not be read (OSError). Dask's own
#: retries come at once, and repeat wrong input too.
PAUSES = (0.5, 2.0, 8.0)
#: Errors that do not pass by waiting.
_LASTING = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
_LOG = logging.getLogger(__name__)


class Packed:
    """A value that Dask does not look into, and that turns into bytes when it is sent to another process."""

    def __init__(self, value: Any = None, data: bytes | None = None):
        self._value, self._data = value, data

    def __reduce__(self) -> tuple[Any, ...]:
        return Packed, (None, cloudpickle.dumps(self._value) if self._data is None else self._data)

    def value(self) -> Any:
        """The value. If it arrived as bytes, each call unpickles them anew."""
        return self._value if self._data is None else cloudpickle.loads(self._data)


class BlockMaker(Protocol):
    """What the task of a segment carries: how its blocks are made."""

    def blocks(self, inputs: Mapping[Any, Any]) -> Iterator[tuple[int, list[Any]]]:
        """The first row of each block, and the block of each array, made when it is asked for and not held here.

        inputs : values of the nodes that the segment depends on, by key
        """


class Blocks(ABC):
    """The row blocks of the aligned arrays of a pass.

    Attributes
    ----------
    edges : sequence of int
        Ascending blocks at which a segment may begin.
    inputs : dict
        Nodes of the graph that segments depend on: learned arrays, data that more than one block needs, rows that are held
        on the cluster.
    held : bool
        Whether rows are held on the cluster: then the segments go to where their rows are.
    """

    edges: Sequence[int]
    inputs: dict[Any, Any]
    held: bool = False
    _learned: str | None = None

    @abstractmethod
    def _segment(self, first: int, last: int, starts: Sequence[int]) -> tuple[list[Any], BlockMaker]:
        """The keys of `inputs` that the blocks first:last need, and what makes them; `starts` are their first rows."""

    def with_learned(self, arrays: Mapping[str, Any]) -> Self:
        """These blocks for a reduction with such arrays of its own. On the worker, segments put them back into it."""
        if not arrays:
            return self
        made, shared = copy.copy(self), shared_arrays(dict(arrays))
        made._learned, made.inputs = shared.key, self.inputs | dict(shared.dask)
        return made

    def segment_task(
        self, key: str, reduction: Any, first: int, last: int, starts: Sequence[int], topic: str | None
    ) -> Task:
        """The task that reduces blocks first:last, whose first rows are `starts`."""
        needs, maker = self._segment(first, last, starts)
        learned = [] if self._learned is None else [self._learned]
        inputs = [TaskRef(k) for k in learned + needs]
        return Task(key, reduce_blocks, reduction, Packed((maker, bool(learned), needs)), topic, *inputs)


def with_dependencies(task: Task, nodes: Mapping[Any, Any], there: Collection[Any] = ()) -> dict[Any, Any]:
    """The graph of a task: it, and those of the nodes that it needs, but for those that are there. Others are on the cluster."""
    graph: dict[Any, Any] = {task.key: task}
    stack = list(task.dependencies)
    while stack:
        key = stack.pop()
        if key in nodes and key not in graph and key not in there:
            graph[key] = nodes[key]
            stack.extend(getattr(nodes[key], "dependencies", ()))
    return graph


def reduce_blocks(reduction: Any, payload: Packed, topic: str | None, *inputs: Any) -> Any:
    """The task of a segment.

    Parameters
    ----------
    reduction : Reduction
    payload : Packed
        A `BlockMaker`, whether the first input is the reduction's arrays, and the keys of the other inputs.
    topic : str or None
        Where progress is reported.
    *inputs : object

    Returns
    -------
    object
        The state of the segment.
    """
    maker, has_arrays, keys = payload.value()
    if has_arrays:
        reduction, inputs = reduction.with_arrays(aligned(inputs[0])), inputs[1:]
    values = dict(zip(keys, inputs, strict=True))
    for pause in (*PAUSES, None):  # each try starts from an empty state
        try:
            return _reduce(reduction, maker, topic, values)
        except OSError as error:
            if pause is None or isinstance(error, DistrfError) or error.errno in _LASTING:
                raise
            _LOG.warning("%s: %s; again in %g s", type(error).__name__, error, pause)
            time.sleep(pause)


def _reduce(reduction: Any, maker: BlockMaker, topic: str | None, inputs: Mapping[Any, Any]) -> Any:
    state = reduction.initial()
    for start, blocks in maker.blocks(inputs):
        rows = blocks[0].shape[0]
        state = add_block(reduction, state, start, blocks)
        del blocks  # before the next one is made
        report(topic, rows)
    return state


def add_block(reduction: Any, state: Any, start: int, values: Sequence[Any]) -> Any:
    """Add one block to a state.

    Parameters
    ----------
    reduction : Reduction
    state : object
        May be changed in place.
    start : int
        First row of the block.
    values : sequence of arrays
        The block of each array of the pass.

    Returns
    -------
    object
        The new state.

    Raises
    ------
    Exception
        What the reduction raises, with the rows of the block in the message.
    """
    with located(f"rows {start} to {start + values[0].shape[0] - 1}"):
        return reduction.update(state, start, *(aligned(value) for value in values))


@contextmanager
def located(where: str) -> Iterator[None]:
    """Add the block, in words, to the message of any error that is raised inside."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{error} [block: {where}]") from error
    except Exception as error:
        error.add_note(f"[block: {where}]")
        raise
