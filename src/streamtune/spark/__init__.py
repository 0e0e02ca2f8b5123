"""Spark without any of our meaning: sessions, files, and tables that are whole or not there."""
