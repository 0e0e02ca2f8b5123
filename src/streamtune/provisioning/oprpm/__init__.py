"""OPRPM: models of performance over provision, chosen, stored, and watched for drift."""
