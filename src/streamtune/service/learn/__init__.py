"""Learning by itself: from what was observed to a model that runs, if it is not worse than the one before."""
