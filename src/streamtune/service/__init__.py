"""The service: a fleet of jobs under control, with a store, an API and a dashboard."""
