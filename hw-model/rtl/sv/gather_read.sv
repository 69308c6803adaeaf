// SPDX-License-Identifier: MIT OR Apache-2.0
`default_nettype none

// Requests the lines of pieces, up to 2^LOG_LINES ahead, and returns them in order: each line with
// the place of the bytes that belong to the piece.
//
// Ports: piece_* is taken in the cycle in which the last line of the previous piece is requested;
// piece_ready follows read_ready. read_* requests lines, `read.index` is the slot; line_* returns
// them in any order. m_* gives them in the order of the requests: `m_bytes` from byte `m_start` on,
// `m_end` with the last line of a packet, `m_error` if the line could not be read.
// Invariants: each outstanding line has a slot; a slot is reused only after its line was given; an
// empty piece has no line, and is given only if it ends its packet.
module gather_read #(
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

    output logic         m_valid,
    input  logic         m_ready,
    output logic [511:0] m_line,
    output logic [5:0]   m_start,
    output logic [6:0]   m_bytes,
    output logic         m_end,
    output logic         m_error,
    output logic         idle
);
    localparam int LINES = 1 << LOG_LINES;
    localparam int INDEX_BITS = card_pkg::LOG_READS;

    // ------------------------------------------------------------------------ what the slots wait for
    logic [512:0]        lines [LINES];    // with a bit: it could not be read
    logic [14:0]         places [LINES];   // start, bytes, end of packet, no line
    logic [LINES-1:0]    arrived;
    logic [LOG_LINES:0]  producer, consumer;
    logic [LOG_LINES-1:0] new_slot, old_slot, line_slot;
    assign new_slot = producer[LOG_LINES-1:0];
    assign old_slot = consumer[LOG_LINES-1:0];
    assign line_slot = line.index[LOG_LINES-1:0];

    // ------------------------------------------------------------------------------ lines of a piece
    logic        busy, ends, has_room, requests;
    logic [57:0] number;                   // of the next line
    logic [5:0]  start;
    logic [12:0] left;
    logic [12:0] room;                     // bytes in the line from `start` on
    logic        is_last_line;
    logic [6:0]  bytes;
    assign room = 13'd64 - {7'b0, start};
    assign is_last_line = left <= room;
    assign bytes = is_last_line ? left[6:0] : room[6:0];
    assign has_room = producer != {!consumer[LOG_LINES], old_slot};
    assign read.valid = busy && has_room && left != '0;
    assign read.iova = {number, 6'b0};
    assign read.index = INDEX_BITS'(new_slot);
    assign requests = busy && has_room && (left == '0 || read_ready);
    assign piece_ready = !busy || (requests && is_last_line);

    always_ff @(posedge clk) begin
        if (requests) begin
            producer <= producer + 1'b1;
            number <= number + 1'b1;
            start <= '0;
            left <= left - {6'b0, bytes};
        end
        if (piece_ready) begin
            busy <= piece_valid && (piece.bytes != '0 || piece.last);
            {number, start} <= piece.iova;
            left <= piece.bytes;
            ends <= piece.last;
        end
        if (rst) begin
            busy <= 1'b0;
            producer <= '0;
        end
    end
    always_ff @(posedge clk) begin
        if (requests) places[new_slot] <= {start, bytes, ends && is_last_line, left == '0};
    end
    always_ff @(posedge clk) begin
        if (line.valid) lines[line_slot] <= {line.error, line.data};
    end

    // ----------------------------------------------------------------------------- lines, in order
    logic gives, is_failed, is_empty;
    assign m_error = is_failed && !is_empty;
    assign gives = arrived[old_slot] && (!m_valid || m_ready);
    always_ff @(posedge clk) begin
        if (line.valid) arrived[line_slot] <= 1'b1;
        if (requests && left == '0) arrived[new_slot] <= 1'b1;
        if (gives) arrived[old_slot] <= 1'b0;
        if (rst) arrived <= '0;
    end
    always_ff @(posedge clk) begin
        if (gives) {is_failed, m_line} <= lines[old_slot];
    end
    always_ff @(posedge clk) begin
        if (gives) {m_start, m_bytes, m_end, is_empty} <= places[old_slot];
    end
    always_ff @(posedge clk) begin
        if (gives) consumer <= consumer + 1'b1;
        if (gives || m_ready) m_valid <= gives;
        if (rst) begin
            consumer <= '0;
            m_valid <= 1'b0;
        end
    end
    assign idle = !busy && producer == consumer && !m_valid;

    // Slots from old_slot to new_slot are in use.
    logic [LOG_LINES-1:0] line_age;
    assign line_age = line_slot - old_slot;
    always_ff @(posedge clk) begin
        if (!rst && line.valid) assert (!arrived[line_slot] && {1'b0, line_age} < producer - consumer);
        if (!rst && line.valid) assert (32'(line.index) < LINES);
        if (!rst && piece_valid) assert ({19'b0, piece.bytes} <= card_pkg::MAX_PIECE_BYTES);
    end
endmodule

`default_nettype wire
