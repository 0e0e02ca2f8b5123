"""Figures 4 to 8 of Fischer's thesis, study 2 ("Machines Tuning Machines")."""
