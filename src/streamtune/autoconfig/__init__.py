"""Auto-configuration: search the settings of a streaming job, or of any program, by running it (Fischer, study 2)."""
