"""What the exercises in Python share: objects, a queue pair, and the meeting of two processes.

    PROGRAM [-p PORT]               the server
    PROGRAM [-p PORT] 127.0.0.1     the client
"""

import json
import socket
import sys

from pyverbs import enums
from pyverbs.addr import AHAttr, GID, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context, get_device_list
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, RecvWR, SendWR

PORT = 1
GID_INDEX = 1  # The port's IPv4 address.
DEPTH = 16


class Side:
    """One process: its objects, its buffer, and its peer."""

    def __init__(self, size=4096, rights=enums.IBV_ACCESS_LOCAL_WRITE):
        self.rights = rights
        self.context = Context(name=get_device_list()[0].name.decode())
        self.pd = PD(self.context)
        self.mr = MR(self.pd, size, rights)
        self.cq = CQ(self.context, 8 * DEPTH)
        capacity = QPCap(max_send_wr=DEPTH, max_recv_wr=DEPTH)
        init = QPInitAttr(qp_type=enums.IBV_QPT_RC, scq=self.cq, rcq=self.cq, cap=capacity)
        self.qp = QP(self.pd, init)
        self.gid = self.context.query_gid(PORT, GID_INDEX).gid
        self.requests = 0
        self.messages = 0
        self.peer = None
        self.socket = None
        self.lines = None

    def to_init(self):
        attr = QPAttr(qp_state=enums.IBV_QPS_INIT, port_num=PORT)
        attr.qp_access_flags = self.rights
        self.qp.to_init(attr)

    def to_rtr(self, peer):
        attr = QPAttr(qp_state=enums.IBV_QPS_RTR, port_num=PORT, path_mtu=enums.IBV_MTU_1024)
        attr.dest_qp_num = peer["qpn"]
        attr.max_dest_rd_atomic = 1
        attr.min_rnr_timer = 12
        route = GlobalRoute(dgid=GID(peer["gid"]), sgid_index=GID_INDEX, hop_limit=64)
        attr.ah_attr = AHAttr(gr=route, is_global=1, port_num=PORT)
        self.qp.to_rtr(attr)

    def to_rts(self):
        attr = QPAttr(qp_state=enums.IBV_QPS_RTS, port_num=PORT)
        attr.timeout = 14
        attr.retry_cnt = 7
        attr.rnr_retry = 7
        attr.max_rd_atomic = 1
        self.qp.to_rts(attr)

    def address(self):
        """What the other side has to know."""
        mr = self.mr
        return {"gid": self.gid, "qpn": self.qp.qp_num, "address": mr.buf, "rkey": mr.rkey}

    def exchange(self, mine):
        """Sends an object to the other side, and returns the other side's."""
        self.socket.sendall((json.dumps(mine) + "\n").encode())
        return json.loads(self.lines.readline())

    def connect(self, tcp_port):
        """Meets the other process, and connects the queue pair. Returns true for the client."""
        arguments = sys.argv[1:]
        if arguments[:1] == ["-p"]:
            tcp_port = int(arguments[1])
            arguments = arguments[2:]
        if arguments:
            self.socket = socket.create_connection((arguments[0], tcp_port))
        else:
            with socket.create_server(("", tcp_port)) as listener:
                self.socket, _ = listener.accept()
        self.lines = self.socket.makefile("r")
        self.peer = self.exchange(self.address())
        self.to_init()
        self.to_rtr(self.peer)
        self.to_rts()
        return bool(arguments)

    def part(self, place, size):
        return SGE(self.mr.buf + place, size, self.mr.lkey)

    def post_receive(self, place, size):
        self.qp.post_recv(RecvWR(num_sge=1, sg=[self.part(place, size)]))

    def post_send(self, place, size):
        self.post(enums.IBV_WR_SEND, place, size)

    def post(self, opcode, place, size, remote_place=None):
        request = SendWR(num_sge=1, sg=[self.part(place, size)], opcode=opcode)
        if remote_place is not None:
            request.set_wr_rdma(self.peer["rkey"], self.peer["address"] + remote_place)
        self.qp.post_send(request)

    def wait_until(self, requests, messages=0):
        """Polls until so many requests are complete, and so many messages have come, since the
        start."""
        while self.requests < requests or self.messages < messages:
            for completion in self.cq.poll(DEPTH)[1]:
                if completion.status != enums.IBV_WC_SUCCESS:
                    sys.exit(f"a completion: status {completion.status}")
                if completion.opcode == enums.IBV_WC_RECV:
                    self.messages += 1
                else:
                    self.requests += 1

    def close(self):
        for one in [self.qp, self.cq, self.mr, self.pd, self.context]:
            one.close()
