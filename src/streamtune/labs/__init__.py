"""Local laboratories: clusters, hosts and control groups to try things on."""
