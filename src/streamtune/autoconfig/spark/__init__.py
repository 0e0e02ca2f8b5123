"""Tuning a PySpark streaming application in one warm session. The only place here that imports Spark."""
