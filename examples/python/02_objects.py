#!/usr/bin/python3
"""Exercise 2 in Python: the objects of every RDMA program, and the states of a queue pair.

    ferroce run -- /usr/bin/python3 02_objects.py
"""

from course import Side
from pyverbs import enums

NAMES = {
    enums.IBV_QPS_RESET: "RESET",
    enums.IBV_QPS_INIT: "INIT",
    enums.IBV_QPS_RTR: "RTR",
    enums.IBV_QPS_RTS: "RTS",
}


def show_state(side):
    attr, _ = side.qp.query(enums.IBV_QP_STATE)
    print(f"the queue pair is in {NAMES[attr.qp_state]}")


def main():
    side = Side()
    show_state(side)
    side.to_init()
    show_state(side)
    # The queue pair is its own peer.
    side.to_rtr(side.address())
    show_state(side)
    side.to_rts()
    show_state(side)
    side.mr.write("hello", 5)
    side.post_receive(2048, 2048)
    side.post_send(0, 5)
    side.wait_until(1, 1)
    print(f'received "{side.mr.read(5, 2048).decode()}"')
    side.close()


main()
