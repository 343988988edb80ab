"""Corrections: the least changes of a round with which a waiting job starts."""
