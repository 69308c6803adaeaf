// SPDX-License-Identifier: MIT OR Apache-2.0
`default_nettype none

// Maps a SendOpcode to its opcodes on the wire and in a completion (IBTA vol 1, 9.2.1: RC, UD).
//
// Ports: `is_first` and `is_last`: position of the packet in its message. Combinational.
// Invariant: operations that the card lacks complete with their own code, unknown ones as SEND.
module send_opcode (
    input  logic [7:0] opcode,
    input  logic       is_datagram,
    input  logic       is_first,
    input  logic       is_last,
    output logic [7:0] packet_opcode,
    output logic [7:0] cqe_opcode,
    output logic       is_atomic,
    output logic       fetches,            // a READ or an atomic: one request packet without payload
    output logic       takes_receive       // of the peer
);
    localparam logic [4:0] SEND_FIRST = 5'h00, WRITE_FIRST = 5'h06, READ_REQUEST = 5'h0c;
    localparam logic [4:0] MIDDLE = 5'd1, LAST = 5'd2, LAST_IMMEDIATE = 5'd3, ONLY = 5'd4;
    localparam logic [4:0] ONLY_IMMEDIATE = 5'd5;
    localparam logic [4:0] SEND_LAST_INVALIDATE = 5'h16, SEND_ONLY_INVALIDATE = 5'h17;

    logic with_immediate, is_read, is_write, is_invalidate, is_swap;
    logic [4:0] place, code;
    assign is_read = opcode == ferroce_pkg::SEND_OPCODE_RDMA_READ;
    assign is_swap = opcode == ferroce_pkg::SEND_OPCODE_COMPARE_SWAP;
    assign is_atomic = is_swap || opcode == ferroce_pkg::SEND_OPCODE_FETCH_ADD;
    assign fetches = is_read || is_atomic;
    assign is_write = opcode == ferroce_pkg::SEND_OPCODE_RDMA_WRITE
                   || opcode == ferroce_pkg::SEND_OPCODE_RDMA_WRITE_IMMEDIATE;
    assign is_invalidate = opcode == ferroce_pkg::SEND_OPCODE_SEND_INVALIDATE;
    assign with_immediate = opcode == ferroce_pkg::SEND_OPCODE_SEND_IMMEDIATE
                         || opcode == ferroce_pkg::SEND_OPCODE_RDMA_WRITE_IMMEDIATE;
    assign takes_receive = with_immediate || is_invalidate || opcode == ferroce_pkg::SEND_OPCODE_SEND;

    always_comb begin
        if (is_first && is_last) place = with_immediate ? ONLY_IMMEDIATE : ONLY;
        else if (is_last) place = with_immediate ? LAST_IMMEDIATE : LAST;
        // The code of First is the operation's code.
        else place = is_first ? 5'd0 : MIDDLE;

        if (is_read) code = READ_REQUEST;
        else if (is_atomic) code = is_swap ? card_pkg::COMPARE_SWAP : card_pkg::FETCH_ADD;
        else if (is_invalidate && is_last) code = is_first ? SEND_ONLY_INVALIDATE : SEND_LAST_INVALIDATE;
        // Only of a WRITE with immediate is 0x0b, Only without is 0x0a: in the same order as for
        // SEND.
        else code = (is_write ? WRITE_FIRST : SEND_FIRST) + place;
        packet_opcode = {3'b000, code} | (is_datagram ? card_pkg::UD_OPCODES : 8'h00);
    end

    always_comb begin
        case (opcode)
            ferroce_pkg::SEND_OPCODE_NOP: cqe_opcode = ferroce_pkg::CQE_OPCODE_NOP;
            ferroce_pkg::SEND_OPCODE_RDMA_WRITE, ferroce_pkg::SEND_OPCODE_RDMA_WRITE_IMMEDIATE:
                cqe_opcode = ferroce_pkg::CQE_OPCODE_RDMA_WRITE;
            ferroce_pkg::SEND_OPCODE_RDMA_READ: cqe_opcode = ferroce_pkg::CQE_OPCODE_RDMA_READ;
            ferroce_pkg::SEND_OPCODE_COMPARE_SWAP: cqe_opcode = ferroce_pkg::CQE_OPCODE_COMPARE_SWAP;
            ferroce_pkg::SEND_OPCODE_FETCH_ADD: cqe_opcode = ferroce_pkg::CQE_OPCODE_FETCH_ADD;
            ferroce_pkg::SEND_OPCODE_LOCAL_INVALIDATE:
                cqe_opcode = ferroce_pkg::CQE_OPCODE_LOCAL_INVALIDATE;
            ferroce_pkg::SEND_OPCODE_BIND_WINDOW: cqe_opcode = ferroce_pkg::CQE_OPCODE_BIND_WINDOW;
            default: cqe_opcode = ferroce_pkg::CQE_OPCODE_SEND;
        endcase
    end
endmodule

`default_nettype wire
