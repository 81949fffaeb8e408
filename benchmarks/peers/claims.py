def claims(found): return []
