"""Fischer's first study again: placement by graph partitioning (``streamtune bench placement``)."""
