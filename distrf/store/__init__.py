"""Zarr, Parquet and CSV in, Zarr and Parquet out, in row blocks; model and spec files.

Names are imported on first use: writing tasks do not need Dask, and readers of Zarr do not need pyarrow.
"""

from __future__ import annotations

import importlib
from typing import Any

_NAMES = {
    "zarr_layout": ("ArrayInfo", "StoreInfo", "info", "made_from"),
    "zarr_writer": (
        "appendable", "begin_append", "create", "existing_store", "finish", "pending_blocks", "write_block",
    ),
    "zarr_source": ("ZarrSource",),
    "row_source": ("RowReader", "RowSource", "RowsInfo", "Selection"),
    "formats": (
        "describe", "facts", "find_format", "fingerprint", "open_source", "open_weighted", "part_fingerprints", "read_as",
        "register_format",
    ),
    "csv_source": ("CsvSource",),
    "table_source": ("TableSource",),
    "parquet_writer": ("create_parts", "existing_parts", "finish_parts", "write_parquet_block"),
    "outputs": ("check_apart", "check_writable", "place_of_array", "to_parquet"),
    "documents": (
        "array_shapes", "existing_model_folder", "is_model_folder", "read_model_folder", "read_spec", "write_model_folder",
    ),
}  # fmt: skip
_MODULE_OF = {name: module for module, names in _NAMES.items() for name in names}

__all__ = sorted(_MODULE_OF)


def __getattr__(name: str) -> Any:
    if name in _MODULE_OF:
        return getattr(importlib.import_module(f"distrf.store.{_MODULE_OF[name]}"), name)
    raise AttributeError(f"module 'distrf.store' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
