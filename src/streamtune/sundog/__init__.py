"""Sundog: fresh rankings of related entities from search logs, in batch and as a stream (Fischer's thesis, study 3).

The way of a line (the thesis' Fig. 2): ``readers`` → ``kernels.scanning`` (names, pairs, relations) →
``kernels.packing`` (events and users per day) → ``panes`` (the state) → ``windows`` → ``features`` → ``ranking`` →
tables.
"""
