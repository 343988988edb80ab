"""The rule book: what docs/plans.md says of gangs, in plain Python upon plain documents."""
