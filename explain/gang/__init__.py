"""A fast oracle of gangs: what fits is counted on arrays, and no round is solved."""
