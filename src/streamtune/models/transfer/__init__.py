"""What past operators lend to the operators of a new job: type → cluster → relatives → the job's own past."""
