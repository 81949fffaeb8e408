"""Work on row blocks with Dask: passes over segments, submission to workers, memory, progress, writing."""
