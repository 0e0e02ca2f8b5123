"""Where task instances run: slots and hosts."""
