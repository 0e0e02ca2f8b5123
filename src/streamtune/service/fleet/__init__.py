"""Looking after many jobs: loops that never wait for one job while another is due, and a keeper per job."""
