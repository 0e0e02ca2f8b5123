"""StreamTune: tunes the parallelism of streaming jobs, operator by operator, by learning from the past."""

__version__ = "0.1.0"
