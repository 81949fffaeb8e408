"""Zarr and Parquet in, Zarr and Parquet out, in row blocks; model and spec files.

Names are imported on first use: writing tasks do not need Dask, and readers of Zarr do not need pyarrow.
"""

from __future__ import annotations

import importlib
from typing import Any

_EXPORTS = {
    "StoreInfo": "layout",
    "ArrayInfo": "layout",
    "create": "writer",
    "pending_blocks": "writer",
    "write_block": "writer",
    "finish": "writer",
    "existing_store": "writer",
    "made_from": "writer",
    "info": "writer",
    "fingerprint": "identity",
    "RowsInfo": "rows",
    "describe": "rows",
    "open_array": "rows",
    "impute_values": "rows",
    "open_rows": "rows",
    "read_block": "rows",
    "ZarrSource": "zarr_source",
    "ParquetSource": "parquet",
    "is_parquet": "parquet",
    "key_blocks": "parquet",
    "read_table": "parquet",
    "table_columns": "parquet",
    "create_parts": "parts",
    "existing_parts": "parts",
    "finish_parts": "parts",
    "pending_parts": "parts",
    "write_parquet_block": "parts",
    "check_apart": "apart",
    "graph_inputs": "apart",
    "array_shapes": "model_folder",
    "existing_model_folder": "model_folder",
    "is_model_folder": "model_folder",
    "read_model_folder": "model_folder",
    "read_spec": "model_folder",
    "write_model_folder": "model_folder",
}

__all__ = sorted(_EXPORTS)


def __getattr__(name: str) -> Any:
    if name in _EXPORTS:
        return getattr(importlib.import_module(f"distrf.store.{_EXPORTS[name]}"), name)
    raise AttributeError(f"module 'distrf.store' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
