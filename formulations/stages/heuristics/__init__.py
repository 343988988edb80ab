"""List schedules of tasks, and places of what begins now."""
