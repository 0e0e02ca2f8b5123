"""The evaluation of the StreamTune paper (Section V) and what goes beyond it, on the simulator."""
