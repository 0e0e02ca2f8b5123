"""What is compiled: text to tokens, names in tokens, JSON lines, times, sketches and their merging.

All kernels stand in this folder: one cache holds them, and a change to any compiles all again (``compilation``).
"""
