"""The data pipeline on PySpark: everything the models learn from passes through here.

Importing this package starts nothing and loads no Spark; its modules do. ``history.session`` builds the Spark
session, ``history.tables`` stores, and every step is a module of its own: generate, ingest, label, featurise, show.
"""
