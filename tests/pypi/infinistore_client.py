#!/usr/bin/env python3
"""Stores blocks with InfiniStore, fetches them and compares them.

    infinistore_client.py PORT SERVER_PID

Then measures how much processor time the server uses while the connection is idle. Deletes the
keys at the end: the server's destructors crash if there are keys in the store.
"""

import asyncio
import random
import sys
import time

import infinistore
import numpy

BLOCK = 64 << 10
BLOCKS = [(f'key {i}', i * BLOCK) for i in range(32)]
# The measured interval, and the ticks of 10 ms that the server may use in it.
IDLE_SECONDS = 2
IDLE_TICKS_MAX = 20


def ticks(pid):
    with open(f'/proc/{pid}/stat') as file:
        # After the name, which may contain blanks: state, then fields 4 and up.
        fields = file.read().rpartition(')')[2].split()
    return int(fields[11]) + int(fields[12])


async def store_and_fetch(connection, source, target):
    await connection.rdma_write_cache_async(BLOCKS, BLOCK, source.ctypes.data)
    await connection.rdma_read_cache_async(BLOCKS, BLOCK, target.ctypes.data)
    try:
        await connection.rdma_read_cache_async([('absent', 0)], BLOCK, target.ctypes.data)
    except infinistore.InfiniStoreKeyNotFound:
        return
    raise AssertionError('a key that was never stored is there')


def main(port, server):
    connection = infinistore.InfinityConnection(infinistore.ClientConfig(
        host_addr='127.0.0.1', service_port=int(port), connection_type=infinistore.TYPE_RDMA,
        dev_name='ferroce0', link_type=infinistore.LINK_ETHERNET))
    connection.connect()
    data = random.Random(7).randbytes(BLOCK * len(BLOCKS))
    source = numpy.frombuffer(data, dtype=numpy.uint8).copy()
    target = numpy.zeros_like(source)
    for memory in (source, target):
        connection.register_mr(memory.ctypes.data, memory.nbytes)
    asyncio.run(store_and_fetch(connection, source, target))
    assert target.tobytes() == data, 'what was fetched is not what was stored'
    before = ticks(server)
    time.sleep(IDLE_SECONDS)
    used = ticks(server) - before
    print('idle server:', used, 'ticks')
    assert used <= IDLE_TICKS_MAX, 'the server does not rest'
    deleted = connection.delete_keys([key for key, _ in BLOCKS])
    assert deleted == len(BLOCKS), deleted
    connection.close()
    print('same bytes:', len(data))


main(*sys.argv[1:])
