#!/usr/bin/python3
"""Exercise 1 in Python: which devices are there, and what can they do?

    ferroce run -- /usr/bin/python3 01_devices.py
"""

from pyverbs.device import Context, get_device_list

PORT = 1


def main():
    devices = get_device_list()
    print(f"{len(devices)} device{'' if len(devices) == 1 else 's'}")
    for device in devices:
        name = device.name.decode()
        context = Context(name=name)
        attr = context.query_device()
        port = context.query_port(PORT)
        print(name)
        print(f"  queue pairs: {attr.max_qp}, with up to {attr.max_qp_wr} requests each")
        print(f"  completion queues: {attr.max_cq}, with up to {attr.max_cqe} entries each")
        print(f"  READs and atomics in flight, of one queue pair: {attr.max_qp_rd_atom}")
        print(f"  a packet holds at most {128 << port.active_mtu} bytes of a message")
        context.close()


main()
