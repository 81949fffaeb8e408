"""Zarr, Parquet and CSV in, Zarr and Parquet out, in row blocks; model and spec files.

Names are imported on first use: writing tasks do not need Dask, and readers of Zarr do not need pyarrow.
"""

from __future__ import annotations

import importlib
from typing import Any

_EXPORTS = {
    "StoreInfo": "zarr_layout",
    "ArrayInfo": "zarr_layout",
    "Contents": "zarr_layout",
    "create": "zarr_writer",
    "appendable": "zarr_writer",
    "begin_append": "zarr_writer",
    "pending_blocks": "zarr_writer",
    "write_block": "zarr_writer",
    "finish": "zarr_writer",
    "existing_store": "zarr_writer",
    "made_from": "zarr_document",
    "info": "zarr_document",
    "RowReader": "row_source",
    "RowSource": "row_source",
    "RowsInfo": "row_source",
    "Selection": "row_source",
    "facts": "formats",
    "find_format": "formats",
    "fingerprint": "formats",
    "part_fingerprints": "formats",
    "open_source": "formats",
    "register_format": "formats",
    "describe": "rows",
    "impute_values": "rows",
    "open_weighted": "rows",
    "read_block": "rows",
    "ZarrSource": "zarr_source",
    "ParquetSource": "parquet_source",
    "CsvSource": "csv_source",
    "TableSource": "table_source",
    "create_parts": "parquet_writer",
    "existing_parts": "parquet_writer",
    "finish_parts": "parquet_writer",
    "pending_parts": "parquet_writer",
    "write_parquet_block": "parquet_writer",
    "check_apart": "outputs",
    "check_writable": "outputs",
    "to_parquet": "outputs",
    "place_of_array": "outputs",
    "array_shapes": "documents",
    "existing_model_folder": "documents",
    "is_model_folder": "documents",
    "read_model_folder": "documents",
    "read_spec": "documents",
    "write_model_folder": "documents",
}

__all__ = sorted(_EXPORTS)


def __getattr__(name: str) -> Any:
    if name in _EXPORTS:
        return getattr(importlib.import_module(f"distrf.store.{_EXPORTS[name]}"), name)
    raise AttributeError(f"module 'distrf.store' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
