"""QEScalor's tables and figures, and what acting ahead of the rate is worth on real traces."""
