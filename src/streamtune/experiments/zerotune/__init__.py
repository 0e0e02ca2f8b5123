"""The experiments of the ZeroTune paper on simulated hosts, and on real runs of Flink."""
