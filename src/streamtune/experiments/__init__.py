"""The papers' tables and figures. Only ``demo`` and ``bench`` import this room."""
