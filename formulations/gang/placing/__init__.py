"""From nothing or from counts to places: hosts, GPUs and the names of tasks."""
