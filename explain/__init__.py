"""Why a job waits: nearest places, the loss of starting it all the same, corrections."""
