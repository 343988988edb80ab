"""The aggregate integer program: counts of jobs per job class and of tasks per host class."""
