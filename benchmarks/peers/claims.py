def claims(found):
    return []
