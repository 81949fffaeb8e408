"""Other tables into a row store: CSV, NumPy archives, svmlight, Parquet."""
