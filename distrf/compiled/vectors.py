"""Vectors of sixteen numbers, read from arrays and written to them, while code is made."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.np import arrayobj

#: Numbers in a vector.
LANES = 16


class Vectors:
    """The vectors of an array that is an argument of an intrinsic.

    Parameters
    ----------
    context, builder, signature, args : what Numba gives the code generator of an intrinsic
    which : number of the argument, a C-contiguous array of numbers
    """

    def __init__(self, context: Any, builder: Any, signature: Any, args: Any, which: int) -> None:
        self.builder, kind = builder, signature.args[which]
        self.type = ir.VectorType(context.get_data_type(kind.dtype), LANES)
        self.data = arrayobj.make_array(kind)(context, builder, args[which]).data
        self.align = kind.dtype.bitwidth // 8

    def _place(self, index: Any) -> Any:
        return self.builder.bitcast(self.builder.gep(self.data, [index]), self.type.as_pointer())

    def load(self, index: Any) -> Any:
        """The vector that begins at an index."""
        return self.builder.load(self._place(index), align=self.align)

    def store(self, value: Any, index: Any) -> None:
        self.builder.store(value, self._place(index), align=self.align)
