"""Several hosts on one machine: network namespaces with limited links, and real engines on them."""

from streamtune.labs.hosts.network import HostNetwork, HostsUnavailableError

__all__ = ["HostNetwork", "HostsUnavailableError"]
