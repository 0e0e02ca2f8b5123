"""Where to try things: a local Flink from the pip package, tuning on simulator and Timely, generated histories."""
