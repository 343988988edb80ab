"""Programs of gangs and of CPU and memory, once groups are chosen."""
