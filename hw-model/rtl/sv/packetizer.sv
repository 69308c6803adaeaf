// SPDX-License-Identifier: MIT OR Apache-2.0
`default_nettype none

// Converts packets to frames: headers, payload, padding, ICRC. One 64-byte beat per cycle.
//
// Ports: packet_* with `packet_responder` (only passed through); payload_* is the payload of the
// packets in their order, as beats aligned to byte 0; only the last beat of a packet may be short;
// packets without payload have no beat. `payload_error`: the beat is wrong; the ICRC of its frame is
// inverted. `sent` pulses when the last payload of a packet was taken and its frame leaves, with
// `sent_error` if its payload is wrong, and `sent_responder`, `sent_qp` of the packet. tx_* is the
// frame without FCS: byte i of a beat is tx.data[8*i +: 8], `tx.bytes` are valid, the others are
// zero. packet_ready and payload_ready follow tx_ready in the same cycle.
// Invariants: one frame per packet, in order; no gap in a frame while payload_valid is set.
module packetizer (
    input  logic         clk,
    input  logic         rst,

    input  logic         packet_valid,
    output logic         packet_ready,
    input  card_pkg::tx_packet_t packet,
    input  logic         packet_responder,
    output logic [3:0]   gid_index,
    input  logic [127:0] gid,
    input  logic [47:0]  gid_mac,

    input  logic         payload_valid,
    output logic         payload_ready,
    input  logic [511:0] payload_data,
    input  logic         payload_last,
    input  logic         payload_error,

    output logic         sent,
    output logic         sent_error,
    output logic         sent_responder,
    output logic [card_pkg::LOG_QPS-1:0] sent_qp,

    output logic         tx_valid,
    input  logic         tx_ready,
    output card_pkg::beat_t tx,
    output logic         idle
);
    logic move;                            // of the pipeline: all stages at once
    assign move = !tx_valid || tx_ready;

    // ----------------------------------------------------------------------------------- the headers
    logic         header_valid, header_ready, header_idle, vlan, v6, responder;
    logic [847:0] header;
    logic [6:0]   header_bytes;
    logic [12:0]  payload_bytes, covered_end;
    logic [card_pkg::LOG_QPS-1:0] qp;
    packet_header headers (
        .clk, .rst, .packet_valid, .packet_ready, .packet, .packet_responder, .gid_index, .gid, .gid_mac,
        .m_valid(header_valid), .m_ready(header_ready), .m_header(header), .m_length(header_bytes), .m_vlan(vlan),
        .m_v6(v6), .m_payload_bytes(payload_bytes), .m_covered_end(covered_end), .m_responder(responder), .m_qp(qp),
        .idle(header_idle)
    );

    // ------------------------------------------------------------------------ the beats of the frame
    // Payload beat n begins in frame beat n + is_long, at byte `at`.
    logic [6:0]  beat;                     // number of the next one
    logic [12:0] frame_bytes, payload_end, position;
    logic [5:0]  at;
    logic        is_long, is_second, is_last, takes, takes_last, can_send, spoiled;
    logic [12:0] taken;                    // bytes of payload before this beat
    always_comb begin
        is_long = header_bytes[6];
        at = header_bytes[5:0];
        frame_bytes = covered_end + 13'd4;
        payload_end = {6'b0, header_bytes} + payload_bytes;
        position = {beat, 6'b0};
        is_second = beat == 7'd1;
        is_last = position + 13'd64 >= frame_bytes;
        taken = position - (is_long ? 13'd64 : 13'd0);
        takes = !(is_long && beat == '0) && taken < payload_bytes;
        takes_last = takes && taken + 13'd64 >= payload_bytes;
        can_send = header_valid && (!takes || payload_valid);
    end
    assign payload_ready = move && header_valid && takes;
    assign header_ready = move && can_send && is_last;

    // Rotated by 4*n + 2 bytes; `at` is 2 modulo 4.
    logic [511:0] rotated, carried;
    always_comb begin
        rotated = {payload_data[495:0], payload_data[511:496]};
        for (int n = 0; n < 4; n++)
            if (at[2 + n]) rotated = rotated << (32 << n) | rotated >> (512 - (32 << n));
    end

    logic [63:0]  is_header, is_high;      // source of each byte
    logic [511:0] header_beat, whole;
    always_comb begin
        header_beat = is_second ? {176'b0, header[847:512]} : header[511:0];
        is_high = 64'hffff_ffff_ffff_ffff << at;
        is_header = '0;
        if (beat == '0) is_header = is_long ? '1 : ~is_high;
        else if (is_second && is_long) is_header = ~is_high;
        for (int i = 0; i < 64; i++)
            whole[8*i +: 8] = is_header[i] ? header_beat[8*i +: 8]
                            : is_high[i] ? rotated[8*i +: 8] : carried[8*i +: 8];
    end

    logic         valid1, last1, vlan1, v6_1, spoil1, icrc_idle;
    logic [511:0] data1, padded1;
    logic [6:0]   beat1, bytes1;
    logic [12:0]  end1, payload_end1;
    always_ff @(posedge clk) begin
        sent <= 1'b0;
        if (move) begin
            valid1 <= can_send;
            data1 <= whole;
            beat1 <= beat;
            last1 <= is_last;
            bytes1 <= is_last ? 7'(frame_bytes - position) : 7'd64;
            {vlan1, v6_1, end1, payload_end1} <= {vlan, v6, covered_end, payload_end};
            spoil1 <= spoiled || (takes && payload_error);
            if (can_send) begin
                beat <= is_last ? '0 : beat + 1'b1;
                spoiled <= !is_last && (spoiled || (takes && payload_error));
                sent <= is_last;
                sent_error <= spoiled || (takes && payload_error);
                {sent_responder, sent_qp} <= {responder, qp};
                if (takes) carried <= rotated;
            end
        end
        if (rst) begin
            valid1 <= 1'b0;
            beat <= '0;
            spoiled <= 1'b0;
        end
    end

    // ------------------------------------------------------------------------------ padding and ICRC
    logic [63:0] keep;                     // bytes up to the end of the payload
    logic [12:0] left1;
    always_comb begin
        left1 = payload_end1 - {beat1, 6'b0};
        if ({beat1, 6'b0} >= payload_end1) keep = '0;
        else if (left1 >= 13'd64) keep = '1;
        else keep = ~(64'hffff_ffff_ffff_ffff << left1[5:0]);
        for (int i = 0; i < 64; i++) padded1[8*i +: 8] = keep[i] ? data1[8*i +: 8] : 8'h00;
    end

    icrc_insert icrc (
        .clk, .rst, .move, .s_valid(valid1), .s_data(padded1), .s_beat(beat1), .s_last(last1), .s_bytes(bytes1),
        .s_vlan(vlan1), .s_v6(v6_1), .s_end(end1), .s_spoil(spoil1), .m_valid(tx_valid), .m(tx), .idle(icrc_idle)
    );
    assign idle = header_idle && !valid1 && icrc_idle;

    always_ff @(posedge clk) begin
        if (!rst && payload_valid && payload_ready && payload_last) assert (takes_last);
        if (!rst && header_valid) assert (header_bytes >= 7'd54 && header_bytes <= 7'd106);
    end
endmodule

`default_nettype wire
