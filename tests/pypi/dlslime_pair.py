#!/usr/bin/env python3
"""Two processes with endpoints of DLSlime: the client reads the memory of the server, then writes
into it; both compare.

    dlslime_pair.py server|client PORT

They exchange what describes their endpoints over TCP.
"""

import ctypes
import json
import random
import socket
import sys

import dlslime

SIZE = 1 << 20


def data(role):
    return random.Random(role).randbytes(SIZE)


def connect(role, port):
    if role == 'server':
        return socket.create_server(('127.0.0.1', port)).accept()[0]
    return socket.create_connection(('127.0.0.1', port))


def main(role, port):
    stream = connect(role, int(port))
    # Two files, because with one file for both directions a write drops data that was read ahead.
    reader, writer = stream.makefile('r'), stream.makefile('w')

    def exchange(value):
        writer.write(json.dumps(value) + '\n')
        writer.flush()
        return json.loads(reader.readline())

    memory = ctypes.create_string_buffer(data(role), SIZE)
    endpoint = dlslime.RDMAEndpoint('ferroce0', 1, 'RoCE', 2)
    local = endpoint.register_memory_region(role, ctypes.addressof(memory), 0, SIZE)
    peer = exchange(endpoint.endpoint_info())
    endpoint.connect(peer)
    exchange('connected')
    if role == 'client':
        remote = endpoint.register_remote_memory_region('server', peer['mr_info']['server'])
        assert endpoint.read([(local, remote, 0, 0, SIZE)], None).wait() == 0
        assert memory.raw == data('server')
        memory[0:SIZE] = data('client')
        half = SIZE // 2
        halves = [(local, remote, 0, 0, half), (local, remote, half, half, half)]
        assert endpoint.write(halves, None).wait() == 0
    exchange('done')
    assert memory.raw == data('client')
    endpoint.shutdown()
    print('same bytes:', SIZE)


main(*sys.argv[1:])
