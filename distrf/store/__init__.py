"""Zarr, Parquet and CSV in, Zarr and Parquet out, in row blocks; model and spec files.

Names are imported on first use: writing tasks do not need Dask, and readers of Zarr do not need pyarrow.
"""

from ..lazy import exports

__getattr__, __all__ = exports(
    __name__,
    {
        ".zarr_arrays": "place_of_array",
        ".zarr_layout": "StoreInfo info",
        ".writer": "create existing_store finish write_block",
        ".row_source": "Selection",
        ".formats": "find_format open_source read_as",
        ".outputs": "check_apart check_writable to_parquet",
        ".documents": "array_shapes existing_model_folder is_model_folder read_model_folder read_spec write_model_folder",
    },
)
