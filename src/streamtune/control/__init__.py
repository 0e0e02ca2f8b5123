"""One tuning process (controller) and many jobs (supervisor), under guards, with everything written down."""
