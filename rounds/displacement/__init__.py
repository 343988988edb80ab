"""Who displaces whom in a candidate, and whether its preemptions are lawful."""
