// SPDX-License-Identifier: MIT OR Apache-2.0
`default_nettype none

// Decodes a request packet for the responder: its operation and place in a message, and the checks
// that need no other block (chapter 14 of the contract; IBTA vol 1, 9.7.4).
//
// Ports: the packet, the QP's attributes, and the message in progress: `message` is open (SEND or
// WRITE), `received` bytes of a SEND have come, `room` is left in its receive WQE, `rest` is left of a
// WRITE. Combinational. `packets` are the responses of a READ or an atomic.
// Invariant: opcodes of other services, and answers, have no operation.
module request_checks (
    input  logic [7:0]  opcode,
    input  logic        is_datagram,       // the QP's service: steer has compared the opcode
    input  logic [12:0] payload_bytes,
    input  logic [2:0]  place,             // of the address: bits 2:0
    input  logic [31:0] length,            // RETH
    input  logic [3:0]  access,
    input  logic [2:0]  path_mtu,

    input  logic        in_send,
    input  logic        in_write,
    input  logic [31:0] received,
    input  logic [31:0] room,
    input  logic [31:0] rest,

    output card_pkg::request_kind_t kind
);
    logic is_send, is_write, is_read, is_atomic, starts, ends, has_immediate, invalidates;
    logic in_sequence, is_allowed, takes_receive, is_length_wrong, is_too_long;
    logic [23:0] packets;
    assign kind = {is_send, is_write, is_read, is_atomic, starts, ends, has_immediate, invalidates, in_sequence,
                   is_allowed, takes_receive, is_length_wrong, is_too_long, packets};

    localparam logic [31:0] MAX_MESSAGE_LENGTH = ferroce_pkg::WQE_MAX_MESSAGE_LENGTH[31:0];

    logic [4:0] code;
    logic       is_rc;                     // or a SEND of a datagram, whose codes are the same
    assign is_rc = opcode[7:5] == (is_datagram ? card_pkg::UD_OPCODES[7:5] : 3'd0);
    assign code = opcode[4:0];
    always_comb begin
        invalidates = is_rc && (code == 5'h16 || code == 5'h17);
        is_send = (is_rc && code <= 5'h05) || invalidates;
        is_write = is_rc && code >= 5'h06 && code <= 5'h0b;
        is_read = is_rc && code == 5'h0c;
        is_atomic = is_rc && (code == card_pkg::COMPARE_SWAP || code == card_pkg::FETCH_ADD);
        starts = code == 5'h00 || (code >= 5'h04 && code <= 5'h06) || (code >= 5'h0a && code != 5'h16);
        ends = !(code == 5'h00 || code == 5'h01 || code == 5'h06 || code == 5'h07);
        has_immediate = is_rc && (code == 5'h03 || code == 5'h05 || code == 5'h09 || code == 5'h0b);
    end

    assign in_sequence = in_send ? !starts && is_send : in_write ? !starts && is_write : starts;
    assign is_allowed = is_send
        || (is_write && access[ferroce_pkg::ACCESS_RIGHTS_REMOTE_WRITE_LSB])
        || (is_read && access[ferroce_pkg::ACCESS_RIGHTS_REMOTE_READ_LSB])
        || (is_atomic && access[ferroce_pkg::ACCESS_RIGHTS_REMOTE_ATOMIC_LSB]);
    assign takes_receive = is_send ? starts : has_immediate;

    // ------------------------------------------------------------------------------------- lengths
    logic [12:0] mtu;
    logic [31:0] payload, announced;
    logic [32:0] total;
    logic        fits_packet, is_message_wrong;
    assign mtu = is_datagram ? 13'(card_pkg::MAX_DATAGRAM_BYTES + card_pkg::GRH_BYTES) : 13'd128 << path_mtu;
    assign payload = {19'd0, payload_bytes};
    assign total = {1'b0, received} + {1'b0, payload};
    assign announced = starts ? length : rest;
    always_comb begin
        if (!ends) fits_packet = payload_bytes == mtu;
        else fits_packet = payload_bytes <= mtu && (starts || payload_bytes != 13'd0);
        if (is_send) is_message_wrong = total > {1'b0, MAX_MESSAGE_LENGTH};
        else if (is_read) is_message_wrong = payload_bytes != 13'd0 || length > MAX_MESSAGE_LENGTH;
        else if (is_atomic) is_message_wrong = payload_bytes != 13'd0 || place != '0;
        else is_message_wrong = announced > MAX_MESSAGE_LENGTH
            || (ends ? payload != announced : payload >= announced);
        is_too_long = is_send && fits_packet && payload > room;
        is_length_wrong = !fits_packet || is_message_wrong;
    end

    logic [31:0] before_last;              // bytes before the last one
    logic [23:0] full;                     // packets of a message are below 2^24
    assign before_last = length - 32'd1;
    assign full = 24'(before_last >> ({2'd0, path_mtu} + 5'd7));
    assign packets = is_atomic || length == 32'd0 ? 24'd1 : full + 24'd1;
endmodule

`default_nettype wire
