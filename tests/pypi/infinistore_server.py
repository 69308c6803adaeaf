#!/usr/bin/env python3
"""Runs InfiniStore's server, with the options of its command `infinistore`."""

from infinistore import server

# Protects itself from the OOM killer, which takes CAP_SYS_RESOURCE; no other part of it does.
server.prevent_oom = lambda: None
server.main()
