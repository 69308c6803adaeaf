// SPDX-License-Identifier: MIT OR Apache-2.0
`default_nettype none

// Buffers the pieces of packets: none leaves before its packet is complete.
//
// Ports: s_* takes pieces; `commit` releases the pieces taken so far, with this cycle's, to m_*, `rollback` drops the
// pieces taken since the last commit.
// Invariants: pieces leave in order, each once. There is room for 2^LOG_DEPTH pieces, more than a
// packet has: 16 segments, each crossing one page boundary.
module packet_pieces #(
    parameter int LOG_DEPTH = 6
) (
    input  logic             clk,
    input  logic             rst,
    input  logic             s_valid,
    output logic             s_ready,
    input  card_pkg::piece_t s_piece,
    input  logic             commit,
    input  logic             rollback,
    output logic             m_valid,
    input  logic             m_ready,
    output card_pkg::piece_t m_piece,
    output logic             idle
);
    localparam int BITS = $bits(s_piece);
    logic [BITS-1:0]    words [1 << LOG_DEPTH];
    logic [LOG_DEPTH:0] producer, committed, consumer;

    assign s_ready = producer != {!consumer[LOG_DEPTH], consumer[LOG_DEPTH-1:0]};
    assign m_valid = consumer != committed;
    assign m_piece = words[consumer[LOG_DEPTH-1:0]];
    assign idle = consumer == producer;

    always_ff @(posedge clk) begin
        if (s_valid && s_ready) words[producer[LOG_DEPTH-1:0]] <= s_piece;
    end
    always_ff @(posedge clk) begin
        if (s_valid && s_ready) producer <= producer + 1'b1;
        if (rollback) producer <= committed;
        if (commit) committed <= producer + {{LOG_DEPTH{1'b0}}, s_valid && s_ready};
        if (m_valid && m_ready) consumer <= consumer + 1'b1;
        if (rst) begin
            producer <= '0;
            committed <= '0;
            consumer <= '0;
        end
    end

    always_ff @(posedge clk) begin
        if (!rst && rollback) assert (!s_valid);
        if (!rst && commit && s_valid) assert (s_ready);
    end
endmodule

`default_nettype wire
