// SPDX-License-Identifier: MIT OR Apache-2.0
`default_nettype none

// Reads payloads from the receive buffer and aligns them to byte 0: one beat per cycle.
//
// Ports: place_* gives the place of a frame in the buffer (first beat, and the beat after the last
// one), and offset and length of its payload. `place_result`: the first 8 bytes are an AtomicAckETH, which gets the
// host's byte order. Of a datagram they include the 40 bytes before the payload, which
// become the GRH; `place_v6` and `place_tagged` locate its IP header, which is in the first beat. beat_* reads the
// buffer, whose registered answer is
// `beat`. `done` pulses with the frame's end when its last beat has been read. payload_* as in
// rx_buffer; `beat_enable` depends on payload_ready in the same cycle.
// Invariants: each frame gives its bytes in order, in at least one beat, the last one with `last`.
module rx_aligner #(
    parameter int LOG_BEATS = 10
) (
    input  logic               clk,
    input  logic               rst,

    input  logic               place_valid,
    output logic               place_ready,
    input  logic [LOG_BEATS-1:0] place_start,
    input  logic [LOG_BEATS:0] place_end,
    input  logic [7:0]         place_offset,
    input  logic [12:0]        place_bytes,
    input  logic               place_datagram,
    input  logic               place_result,
    input  logic               place_v6,
    input  logic               place_tagged,   // with a VLAN tag

    output logic               done,
    output logic [LOG_BEATS:0] done_end,

    output logic               beat_enable,
    output logic [LOG_BEATS-1:0] beat_place,
    input  logic [511:0]       beat,

    output logic               payload_valid,
    input  logic               payload_ready,
    output card_pkg::beat_t    payload,
    output logic               idle
);
    // A payload of n beats takes n + 1 slots: in slot k, beat k of the frame is read, and beat k - 1
    // of the payload is combined from this beat and the previous one. The last beat that is read may
    // be after the frame; then it is not used. A datagram has another slot before these, for its IP header.
    localparam int RESULT_BYTES = card_pkg::ATOMIC_BYTES;
    localparam int GRH_BYTES = card_pkg::GRH_BYTES, IPV4_BYTES = 20, ETHERNET_BYTES = 14, TAG_BYTES = 4;
    logic               reading, heading;  // `heading`: in the slot of the IP header
    logic               first, starts;     // `first`: slot 0, which gives no beat; `starts`: slot 1 of a datagram
    logic               after_heading, v6, is_result, begins_result;
    logic [5:0]         head_shift;
    logic [LOG_BEATS-1:0] at, data_at;
    logic [LOG_BEATS:0] frame_end;
    logic [5:0]         shift;
    logic [12:0]        left;              // bytes from this slot on
    logic               advance, is_last_slot;

    assign advance = !payload_valid || payload_ready;
    assign is_last_slot = reading && !heading && !first && left <= 13'd64;
    assign place_ready = advance && (!reading || is_last_slot);
    assign beat_enable = advance;
    assign beat_place = at;
    assign done = advance && is_last_slot;
    assign done_end = frame_end;

    always_ff @(posedge clk) begin
        if (advance) begin
            first <= heading;
            heading <= 1'b0;
            after_heading <= heading;
            starts <= after_heading;
            begins_result <= first && is_result;
            at <= heading ? data_at : at + 1'b1;
            if (!first && !heading) left <= left - 13'd64;
            if (is_last_slot) reading <= 1'b0;
            if (place_ready && place_valid) begin
                reading <= 1'b1;
                first <= !place_datagram;
                heading <= place_datagram;
                v6 <= place_v6;
                is_result <= place_result;
                // IPv4 ends where IPv6 ends.
                head_shift <= 6'(ETHERNET_BYTES) + (place_tagged ? 6'(TAG_BYTES) : 6'd0)
                            - (place_v6 ? 6'd0 : 6'(GRH_BYTES - IPV4_BYTES));
                data_at <= place_start + {{(LOG_BEATS-2){1'b0}}, place_offset[7:6]};
                at <= place_start + (place_datagram ? '0 : {{(LOG_BEATS-2){1'b0}}, place_offset[7:6]});
                frame_end <= place_end;
                shift <= place_offset[5:0];
                left <= place_bytes;
            end
        end
        if (rst) reading <= 1'b0;
        if (rst) {heading, after_heading, starts} <= '0;
    end

    logic valid1, valid2;
    assign idle = !reading && !valid1 && !valid2 && !payload_valid;

    // ------------------------------------------------------------------- stage 1: the beat is there
    logic       last1, heads1, starts1, v6_1, result1;
    logic [5:0] shift1;
    logic [6:0] bytes1;
    always_ff @(posedge clk) begin
        if (advance) begin
            valid1 <= reading && !first && !heading;
            last1 <= is_last_slot;
            {heads1, starts1, v6_1, result1} <= {heading, starts, v6, begins_result};
            shift1 <= heading ? head_shift : shift;
            bytes1 <= left > 13'd64 ? 7'd64 : left[6:0];
        end
        if (rst) valid1 <= 1'b0;
    end

    // -------------------------------------------------------------------------- stage 2: it is rotated
    logic         last2, heads2, starts2, v6_2, result2;
    logic [5:0]   shift2;
    logic [6:0]   bytes2;
    logic [511:0] rotated2;
    always_ff @(posedge clk) begin
        if (advance) begin
            valid2 <= valid1;
            last2 <= last1;
            {heads2, starts2, v6_2, result2} <= {heads1, starts1, v6_1, result1};
            shift2 <= shift1;
            bytes2 <= bytes1;
            rotated2 <= 512'({beat, beat} >> {shift1, 3'b000});
        end
        if (rst) valid2 <= 1'b0;
    end

    // -------------------------------------------- stage 3: it is put together with the one before it
    logic [511:0] before3;
    logic [8*GRH_BYTES-1:0] grh3;
    logic [511:0] whole2;
    logic [8*RESULT_BYTES-1:0] result;     // as it came
    always_comb begin
        for (int i = 0; i < 64; i++)
            whole2[8*i +: 8] = 7'(i) + {1'b0, shift2} < 7'd64 ? before3[8*i +: 8] : rotated2[8*i +: 8];
        if (starts2) whole2[8*GRH_BYTES-1:0] = grh3;
        result = whole2[8*RESULT_BYTES-1:0];
        if (result2)
            for (int i = 0; i < RESULT_BYTES; i++) whole2[8*i +: 8] = result[8*(RESULT_BYTES-1-i) +: 8];
    end
    always_ff @(posedge clk) begin
        if (advance) begin
            before3 <= rotated2;
            payload_valid <= valid2;
            payload.last <= last2;
            payload.bytes <= bytes2;
            payload.data <= whole2;
            if (heads2) grh3 <= v6_2 ? rotated2[8*GRH_BYTES-1:0]
                                     : {rotated2[8*GRH_BYTES-1:8*(GRH_BYTES - IPV4_BYTES)], {8*(GRH_BYTES - IPV4_BYTES){1'b0}}};
        end
        if (rst) payload_valid <= 1'b0;
    end
endmodule

`default_nettype wire
