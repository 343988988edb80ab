"""Mutated dumps of live clusters: each is a round, or an error of one clear line."""
