"""What people look at: the tuning report, charts, drawings of dataflows, pictures of models."""
