"""Tables of real and made columns: what the defaults give, beside other methods."""
