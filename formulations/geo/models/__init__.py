"""Models: the assignment LP over job classes, and the monolithic model of small rounds."""
