// SPDX-License-Identifier: MIT OR Apache-2.0
`default_nettype none

// Scatter: writes the payload of each frame to its pieces, line by line.
//
// Ports: payload_* comes from rx_buffer. place_* are the pieces of each frame, in order, the last one
// with `last`; the rest of the payload after it is dropped. `place_drop`: this piece is not written;
// it comes with `last`. write_* are lines, in order; a line is written once for each piece that has a
// part of it. `frames_done` is the number of the newest frame whose writes have all been taken.
// `payload_ready` depends on write_ready in the same cycle, `place_ready` does not.
// Invariants: one line per cycle, except a frame's first line when the end was not aligned; only
// bytes of the piece are strobed; frames_done counts each frame once, in order.
module scatter (
    input  logic         clk,
    input  logic         rst,

    input  logic         place_valid,
    output logic         place_ready,
    input  card_pkg::piece_t place,
    input  logic         place_drop,

    input  logic         payload_valid,
    output logic         payload_ready,
    input  card_pkg::beat_t payload,

    output card_pkg::write_t write,
    input  logic         write_ready,

    output logic [15:0]  frames_done,
    output logic         idle
);
    localparam int PIECE_BITS = $bits(place);

    // --------------------------------------------------------------------------- pieces that wait
    logic             next_valid, next_ready, next_drop;
    card_pkg::piece_t next;
    fifo #(.BITS(PIECE_BITS + 1), .LOG_DEPTH(2)) pieces (
        .clk, .rst, .s_valid(place_valid), .s_ready(place_ready), .s_data({place, place_drop}), .m_valid(next_valid),
        .m_ready(next_ready), .m_data({next, next_drop})
    );

    // -------------------------------------------------------------------- the beat that is in use
    logic         beat_valid, beat_last;
    logic [511:0] beat;
    logic [6:0]   beat_bytes;
    logic [5:0]   from;                    // first byte of it that is not placed yet

    // ---------------------------------------------------------------------------- the piece in use
    typedef enum logic [1:0] { IDLE, PLACE, DRAIN } step_t;
    step_t        step;
    logic [63:0]  iova;
    logic [12:0]  left;
    logic         last;

    // Work of a cycle of PLACE: the rest of the line at `iova`, or of the piece.
    logic [6:0]   room, count, behind;     // behind: byte of the beat after the placed bytes
    logic         crosses, empties, has_bytes, places, ends_piece, ends_payload, drains;
    logic         advance, ends_frame;
    always_comb begin
        room = 7'd64 - {1'b0, iova[5:0]};
        count = left < {6'b0, room} ? left[6:0] : room;
        behind = {1'b0, from} + count;     // of two beats: up to 127
        crosses = behind > 7'd64 && !beat_last;
        empties = behind >= 7'd64;
        has_bytes = beat_valid && (!crosses || payload_valid);
        places = step == PLACE && has_bytes && advance;
        ends_piece = places && left == {6'b0, count};
        ends_payload = crosses ? payload.last : beat_last;
        drains = step == DRAIN && beat_valid && advance;
        ends_frame = (ends_piece && last && ends_payload) || (drains && beat_last);
    end

    assign next_ready = step == IDLE || (ends_piece && (!last || ends_payload)) || (drains && beat_last);
    assign payload_ready = !beat_valid || (places && empties) || (places && ends_frame) || drains;

    always_ff @(posedge clk) begin
        if (payload_ready) begin
            beat <= payload.data;
            beat_last <= payload.last;
            beat_bytes <= payload.bytes;
            // The beat that contains the frame's end is consumed with it.
            beat_valid <= payload_valid && !(places && crosses && ends_frame);
        end
        if (places) from <= behind[5:0];
        if (ends_frame) from <= 6'd0;
        if (rst) begin
            beat_valid <= 1'b0;
            from <= 6'd0;
        end
    end

    always_ff @(posedge clk) begin
        if (places) begin
            iova <= iova + {57'b0, count};
            left <= left - {6'b0, count};
        end
        if (ends_piece) step <= last && !ends_payload ? DRAIN : IDLE;
        if (drains && beat_last) step <= IDLE;
        if (next_ready && next_valid) begin
            iova <= next.iova;
            left <= next.bytes;
            last <= next.last;
            if (next.bytes != 13'd0 && !next_drop) step <= PLACE;
            else step <= next.last || next_drop ? DRAIN : IDLE;
        end
        if (rst) step <= IDLE;
    end

    // -------------------------------------- stage 1: bytes of two beats, still where they were
    logic         valid1, is_write1, ends_frame1;
    logic [511:0] bytes1;
    logic [5:0]   rotate1, first1;
    logic [6:0]   count1;
    logic [57:0]  line1;
    always_ff @(posedge clk) begin
        if (advance) begin
            valid1 <= places || drains;
            is_write1 <= places;
            ends_frame1 <= ends_frame;
            rotate1 <= iova[5:0] - from;
            first1 <= iova[5:0];
            count1 <= count;
            line1 <= iova[63:6];
            for (int i = 0; i < 64; i++) begin
                bytes1[8*i +: 8] <= 6'(i) >= from ? beat[8*i +: 8] : payload.data[8*i +: 8];
            end
        end
        if (rst) valid1 <= 1'b0;
    end

    // ------------------------------------------------------------- stage 2: the line as it is written
    logic         valid2, is_write2, ends_frame2, write_valid;
    logic [63:0]  write_iova, write_strobe;
    logic [511:0] write_line;
    logic [1023:0] twice1;
    wire unused_twice1 = &{1'b0, twice1};
    assign twice1 = {bytes1, bytes1} << {rotate1, 3'b000};
    always_ff @(posedge clk) begin
        if (advance) begin
            valid2 <= valid1;
            is_write2 <= is_write1;
            ends_frame2 <= ends_frame1;
            write_iova <= {line1, 6'b0};
            write_line <= twice1[1023:512];
            write_strobe <= (count1[6] ? '1 : (64'd1 << count1) - 64'd1) << first1;
        end
        if (rst) valid2 <= 1'b0;
    end

    assign write_valid = valid2 && is_write2;
    assign write = {write_valid, write_iova, write_line, write_strobe};
    assign advance = !write_valid || write_ready;

    always_ff @(posedge clk) begin
        if (valid2 && ends_frame2 && advance) frames_done <= frames_done + 16'd1;
        if (rst) frames_done <= '0;
    end

    assign idle = !place_valid && !next_valid && step == IDLE && !beat_valid && !payload_valid
               && !valid1 && !valid2;

    logic was_writing;
    logic [63:0] last_iova;
    always_ff @(posedge clk) begin
        was_writing <= !rst && write_valid && !write_ready;
        last_iova <= write_iova;
        if (!rst && was_writing) assert (write_valid && write_iova == last_iova);
        // Pieces are not longer than the payload.
        if (!rst && places) assert (behind <= beat_bytes || crosses);
        if (!rst && places && crosses) assert (behind - 7'd64 <= payload.bytes);
    end
endmodule

`default_nettype wire
