"""Writers: a plan as the commands, patches or tables of the scheduler that the round came from."""
