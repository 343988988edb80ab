"""The public benchmark: solvers and baselines on the instance library, and what comes of it."""
