"""What is decided: formulations turn a round into candidate plans and bounds."""
