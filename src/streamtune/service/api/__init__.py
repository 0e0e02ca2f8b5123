"""The API: everything that the dashboard does, under fixed addresses."""
