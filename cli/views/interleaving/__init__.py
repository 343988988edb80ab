"""Groups of jobs that take turns: facts, tables, charts and pictures."""
