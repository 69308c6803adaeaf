// SPDX-License-Identifier: MIT OR Apache-2.0
`default_nettype none

// Gathers the payload of packets from host memory: converts pieces at any address and of any length
// to beats of 64 bytes, packed and aligned to byte 0.
//
// Ports: piece_* are the pieces of packets, in order, the last one of each with `last`; read_* and
// line_* are DMA of lines, which return in any order. payload_* is a packet's bytes: all 64 of a beat
// are valid unless `payload_last` is set. `payload_error`: a line of this beat or of an earlier beat
// of the packet could not be read. piece_ready follows read_ready in the same cycle.
// Invariants: one beat per cycle while lines are available, whatever the addresses of the pieces; an
// empty packet has no beat. If an empty piece ends a packet of whole beats, no beat has
// `payload_last`.
module gather #(
    parameter int LOG_LINES = 6
) (
    input  logic         clk,
    input  logic         rst,

    input  logic         piece_valid,
    output logic         piece_ready,
    input  card_pkg::piece_t piece,

    output card_pkg::read_t read,
    input  logic         read_ready,
    input  card_pkg::line_t line,

    output logic         payload_valid,
    input  logic         payload_ready,
    output logic [511:0] payload_data,
    output logic         payload_last,
    output logic         payload_error,
    output logic         idle
);
    logic         line_given, line_taken, line_end, line_failed, reads_idle;
    logic [511:0] given;
    logic [5:0]   start;
    logic [6:0]   bytes;
    gather_read #(.LOG_LINES(LOG_LINES)) reads (
        .clk, .rst, .piece_valid, .piece_ready, .piece, .read, .read_ready, .line, .m_valid(line_given),
        .m_ready(line_taken), .m_line(given), .m_start(start), .m_bytes(bytes), .m_end(line_end),
        .m_error(line_failed), .idle(reads_idle)
    );

    // ------------------------------------------- rotation: the bytes stand where they are in the
    // beat `fill`: bytes of the beat that are available before this line.
    logic [5:0]   fill, turn;
    logic [6:0]   filled;
    logic [511:0] rotated;
    assign turn = fill - start;
    assign filled = {1'b0, fill} + bytes;
    always_comb begin
        rotated = given;
        for (int n = 0; n < 6; n++)
            if (turn[n]) rotated = rotated << (8 << n) | rotated >> (512 - (8 << n));
    end

    logic         valid1, ready1, end1, error1;
    logic [511:0] line1;
    logic [5:0]   fill1;
    logic [6:0]   filled1;
    assign line_taken = !valid1 || ready1;
    always_ff @(posedge clk) begin
        if (line_taken) begin
            valid1 <= line_given;
            line1 <= rotated;
            {fill1, filled1, end1, error1} <= {fill, filled, line_end, line_failed};
            if (line_given) fill <= line_end ? '0 : filled[5:0];
        end
        if (rst) begin
            valid1 <= 1'b0;
            fill <= '0;
        end
    end

    // ------------------------------------------------------------------------------------- the beats
    // A line that ends a packet may fill a beat and begin another one, which leaves separately
    // (`rest`).
    logic         can_give, is_full, rest, failed;
    logic [511:0] carried, merged;
    assign can_give = !payload_valid || payload_ready;
    assign ready1 = can_give && !rest;
    assign is_full = filled1[6];
    always_comb begin
        for (int i = 0; i < 64; i++)
            merged[8*i +: 8] = i < {26'b0, fill1} ? carried[8*i +: 8] : line1[8*i +: 8];
    end
    always_ff @(posedge clk) begin
        if (can_give) begin
            payload_valid <= rest || (valid1 && (is_full || (end1 && filled1 != '0)));
            payload_data <= rest ? carried : merged;
            payload_last <= rest || (end1 && filled1 <= 7'd64);
            payload_error <= failed || (!rest && error1);
            rest <= !rest && valid1 && end1 && filled1 > 7'd64;
            if (rest) failed <= 1'b0;
            else if (valid1) begin
                carried <= is_full ? line1 : merged;
                failed <= (failed || error1) && !(end1 && filled1 <= 7'd64);
            end
        end
        if (rst) begin
            payload_valid <= 1'b0;
            rest <= 1'b0;
            failed <= 1'b0;
        end
    end
    assign idle = reads_idle && !valid1 && !rest && !payload_valid;
endmodule

`default_nettype wire
