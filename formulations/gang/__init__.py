"""Gang placement: every job gets one of its options, all tasks or none."""
