#!/usr/bin/python3
"""Exercise 4 in Python: WRITE and READ, and the keys of memory.

    ferroce run -- /usr/bin/python3 04_write_read.py &
    ferroce run -- /usr/bin/python3 04_write_read.py 127.0.0.1
"""

from course import Side
from pyverbs import enums

TEXT = 64
RIGHTS = (
    enums.IBV_ACCESS_LOCAL_WRITE | enums.IBV_ACCESS_REMOTE_READ | enums.IBV_ACCESS_REMOTE_WRITE
)


def text_of(side):
    return side.mr.read(TEXT, 0).decode().rstrip("\0")


def main():
    side = Side(rights=RIGHTS)
    is_client = side.connect(18524)
    kept = "kept by the server"
    if not is_client:
        side.mr.write(kept.ljust(TEXT, "\0"), TEXT)
    side.exchange("ready")
    if is_client:
        side.post(enums.IBV_WR_RDMA_READ, 0, TEXT, 0)
        side.wait_until(1)
        print(f'client: READ "{text_of(side)}"')
        side.mr.write("written by the client".ljust(TEXT, "\0"), TEXT)
        side.post(enums.IBV_WR_RDMA_WRITE, 0, TEXT, 0)
        side.wait_until(2)
    side.exchange("done")
    if not is_client:
        print(f'server: my memory says "{text_of(side)}"')
    side.close()


main()
