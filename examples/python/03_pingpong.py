#!/usr/bin/python3
"""Exercise 3 in Python: SEND and RECV between two processes.

    ferroce run -- /usr/bin/python3 03_pingpong.py &
    ferroce run -- /usr/bin/python3 03_pingpong.py 127.0.0.1
"""

import time

from course import Side

SIZE = 64
ROUNDS = 1000


def main():
    side = Side()
    is_client = side.connect(18523)
    side.post_receive(0, SIZE)
    side.exchange("ready")
    start = time.monotonic_ns()
    for played in range(ROUNDS):
        if is_client:
            side.post_send(SIZE, SIZE)
        side.wait_until(played + 1 if is_client else played, played + 1)
        side.post_receive(0, SIZE)  # For the next message, before the peer may send it.
        if not is_client:
            side.post_send(SIZE, SIZE)
    side.wait_until(ROUNDS, ROUNDS)
    if is_client:
        passed_ns = time.monotonic_ns() - start
        print(f"{ROUNDS} rounds of {SIZE} bytes, {passed_ns / ROUNDS:.1f} ns a round")
    side.exchange("done")
    side.close()


main()
