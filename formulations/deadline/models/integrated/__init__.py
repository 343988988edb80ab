"""One integer program of promises, leases and places, for small rounds."""
