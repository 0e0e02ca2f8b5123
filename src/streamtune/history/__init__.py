"""The data pipeline on PySpark: everything the models learn from passes through here.

Importing this package starts nothing and loads no Spark; its modules do. Every step is a module of its own: ingest,
label, featurise, cluster, show. Sessions and storage are in ``streamtune.spark``.
"""
