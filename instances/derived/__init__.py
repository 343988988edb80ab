"""What follows from documents: arrays, hardware, demand, cell trees."""
