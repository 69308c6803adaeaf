// SPDX-License-Identifier: MIT OR Apache-2.0
`default_nettype none

// The transmit path: converts packets of requester and responder, alternately, to frames; reads their
// payload from host memory.
//
// Ports: each source gives packets, and the pieces of their payload before, with or after them, up to
// 2^LOG_TX_PIECES of them before. read_*, line_* are DMA of lines. `sent` pulses when the payload of
// a packet has been read and its frame leaves, with `sent_responder` and `sent_qp`; `payload_error`
// if it could not be read: the frame leaves with a wrong ICRC. tx_* is the frame. No ready depends on
// another port's ready.
// Invariants: frames of a source leave in the order of its packets; one frame per packet.
module transmit (
    input  logic         clk,
    input  logic         rst,

    input  logic         requester_packet_valid,
    output logic         requester_packet_ready,
    input  card_pkg::tx_packet_t requester_packet,
    input  logic         requester_piece_valid,
    output logic         requester_piece_ready,
    input  card_pkg::piece_t requester_piece,

    input  logic         responder_packet_valid,
    output logic         responder_packet_ready,
    input  card_pkg::tx_packet_t responder_packet,
    input  logic         responder_piece_valid,
    output logic         responder_piece_ready,
    input  card_pkg::piece_t responder_piece,

    output logic [3:0]   gid_index,
    input  logic [127:0] gid,
    input  logic [47:0]  gid_mac,

    output card_pkg::read_t read,
    input  logic         read_ready,
    input  card_pkg::line_t line,

    output logic         sent,
    output logic         sent_responder,
    output logic [card_pkg::LOG_QPS-1:0] sent_qp,
    output logic         payload_error,
    output logic         payload_error_responder,
    output logic [card_pkg::LOG_QPS-1:0] payload_error_qp,

    output logic         tx_valid,
    input  logic         tx_ready,
    output card_pkg::beat_t tx,
    output logic         idle
);
    localparam int PACKET_BITS = $bits(requester_packet);
    localparam int PIECE_BITS = $bits(requester_piece);

    // ------------------------------------------------------------------------- what each source gave
    logic [1:0] packets_valid, packets_ready, pieces_valid, pieces_ready, pieces_idle;
    card_pkg::tx_packet_t packet0, packet1;
    card_pkg::piece_t piece0, piece1;
    fifo #(.BITS(PACKET_BITS), .LOG_DEPTH(card_pkg::LOG_TX_PACKETS)) requester_packets (
        .clk, .rst, .s_valid(requester_packet_valid), .s_ready(requester_packet_ready), .s_data(requester_packet),
        .m_valid(packets_valid[0]), .m_ready(packets_ready[0]), .m_data(packet0)
    );
    fifo #(.BITS(PACKET_BITS), .LOG_DEPTH(card_pkg::LOG_TX_PACKETS)) responder_packets (
        .clk, .rst, .s_valid(responder_packet_valid), .s_ready(responder_packet_ready), .s_data(responder_packet),
        .m_valid(packets_valid[1]), .m_ready(packets_ready[1]), .m_data(packet1)
    );
    block_fifo #(.BITS(PIECE_BITS), .LOG_DEPTH(card_pkg::LOG_TX_PIECES)) requester_pieces (
        .clk, .rst, .s_valid(requester_piece_valid), .s_ready(requester_piece_ready), .s_data(requester_piece),
        .m_valid(pieces_valid[0]), .m_ready(pieces_ready[0]), .m_data(piece0), .idle(pieces_idle[0])
    );
    block_fifo #(.BITS(PIECE_BITS), .LOG_DEPTH(card_pkg::LOG_TX_PIECES)) responder_pieces (
        .clk, .rst, .s_valid(responder_piece_valid), .s_ready(responder_piece_ready), .s_data(responder_piece),
        .m_valid(pieces_valid[1]), .m_ready(pieces_ready[1]), .m_data(piece1), .idle(pieces_idle[1])
    );

    // ------------------------------------------------------------------------------------ their turns
    logic chosen_valid, chosen_ready, chosen_responder, piece_valid, piece_ready, turns_idle;
    card_pkg::tx_packet_t chosen;
    card_pkg::piece_t piece;
    transmit_turns turns (
        .clk, .rst, .packets_valid, .packets_ready, .packet0, .packet1, .pieces_valid, .pieces_ready, .piece0,
        .piece1, .packet_valid(chosen_valid), .packet_ready(chosen_ready), .packet(chosen),
        .packet_responder(chosen_responder), .piece_valid, .piece_ready, .piece, .idle(turns_idle)
    );

    // -------------------------------------------------- payload is read for packets that wait for it
    logic packet_valid, packet_ready, packet_responder, packets_idle;
    card_pkg::tx_packet_t packet;
    block_fifo #(.BITS(PACKET_BITS + 1), .LOG_DEPTH(card_pkg::LOG_TX_TURNS)) packets (
        .clk, .rst, .s_valid(chosen_valid), .s_ready(chosen_ready), .s_data({chosen_responder, chosen}),
        .m_valid(packet_valid), .m_ready(packet_ready), .m_data({packet_responder, packet}), .idle(packets_idle)
    );
    logic         payload_valid, payload_ready, payload_last, payload_failed, gather_idle;
    logic [511:0] payload_data;
    gather #(.LOG_LINES(card_pkg::LOG_TX_LINES)) payload (
        .clk, .rst, .piece_valid, .piece_ready, .piece, .read, .read_ready, .line, .payload_valid, .payload_ready,
        .payload_data, .payload_last, .payload_error(payload_failed), .idle(gather_idle)
    );

    logic sent_error, frames_idle;
    packetizer frames (
        .clk, .rst, .packet_valid, .packet_ready, .packet, .packet_responder, .gid_index, .gid, .gid_mac,
        .payload_valid, .payload_ready, .payload_data, .payload_last, .payload_error(payload_failed), .sent,
        .sent_error, .sent_responder, .sent_qp, .tx_valid, .tx_ready, .tx, .idle(frames_idle)
    );
    assign payload_error = sent && sent_error;
    assign payload_error_responder = sent_responder;
    assign payload_error_qp = sent_qp;

    assign idle = packets_valid == '0 && pieces_idle == '1 && turns_idle && packets_idle
               && gather_idle && frames_idle && !sent;
endmodule

`default_nettype wire
