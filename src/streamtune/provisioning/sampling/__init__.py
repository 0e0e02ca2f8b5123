"""Sampling (OOPSer): what an operator instance does with a given CPU and memory."""
