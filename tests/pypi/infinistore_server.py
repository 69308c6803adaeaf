#!/usr/bin/env python3
"""Runs InfiniStore's server, with the options of its command `infinistore`."""

from infinistore import server

# The server protects itself from the OOM killer; only this step needs CAP_SYS_RESOURCE.
server.prevent_oom = lambda: None
server.main()
