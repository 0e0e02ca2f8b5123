"""Spark itself, with nothing about streaming in it: sessions, files, and tables that are complete or absent."""
