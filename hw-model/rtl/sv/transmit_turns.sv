// SPDX-License-Identifier: MIT OR Apache-2.0
`default_nettype none

// Takes the packets of two sources alternately, and the pieces of each directly after it.
//
// Ports: index 0 is the requester, 1 the responder. The chosen packet goes to packet_*, with
// `packet_responder`; then the pieces of its source go to piece_*, up to the last one. Ready follows
// the other side's ready in the same cycle.
// Invariant: packets and pieces leave in the same order of sources.
module transmit_turns (
    input  logic         clk,
    input  logic         rst,

    input  logic [1:0]   packets_valid,
    output logic [1:0]   packets_ready,
    input  card_pkg::tx_packet_t packet0,
    input  card_pkg::tx_packet_t packet1,
    input  logic [1:0]   pieces_valid,
    output logic [1:0]   pieces_ready,
    input  card_pkg::piece_t piece0,
    input  card_pkg::piece_t piece1,

    output logic         packet_valid,
    input  logic         packet_ready,
    output card_pkg::tx_packet_t packet,
    output logic         packet_responder,
    output logic         piece_valid,
    input  logic         piece_ready,
    output card_pkg::piece_t piece,
    output logic         idle
);
    logic has_pieces;                      // of the last packet: they are taken now
    logic turn;                            // source of that packet
    logic chosen;
    assign chosen = packets_valid == 2'b11 ? !turn : packets_valid[1];

    assign packet_valid = !has_pieces && packets_valid != '0;
    assign packet = chosen ? packet1 : packet0;
    assign packet_responder = chosen;
    assign packets_ready = {chosen, !chosen} & {2{!has_pieces && packet_ready}};

    assign piece_valid = has_pieces && pieces_valid[turn];
    assign piece = turn ? piece1 : piece0;
    assign pieces_ready = {turn, !turn} & {2{has_pieces && piece_ready}};
    assign idle = !has_pieces;

    always_ff @(posedge clk) begin
        if (packet_valid && packet_ready) begin
            turn <= chosen;
            has_pieces <= packet.payload_bytes != '0;
        end
        if (piece_valid && piece_ready && piece.last) has_pieces <= 1'b0;
        if (rst) begin
            turn <= 1'b0;
            has_pieces <= 1'b0;
        end
    end

    // The pieces of a packet are its payload.
    logic [12:0] bytes;
    always_ff @(posedge clk) begin
        if (packet_valid && packet_ready) bytes <= packet.payload_bytes;
        if (piece_valid && piece_ready) bytes <= bytes - piece.bytes;
        if (!rst && piece_valid) assert (piece.last ? piece.bytes == bytes : piece.bytes <= bytes);
    end
endmodule

`default_nettype wire
