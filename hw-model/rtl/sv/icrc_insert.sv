// SPDX-License-Identifier: MIT OR Apache-2.0
`default_nettype none

// Computes the ICRC of passing frames, and writes it after the padding: one 64-byte beat per cycle,
// six stages.
//
// Ports: all stages move in a cycle with `move`; a stage may be empty. s_* is a beat: `s_beat` its
// number in the frame, `s_end` the first byte after the padding, where the four bytes of ICRC begin;
// bytes of the beat from there on are zero. `s_spoil` in the beat that contains byte `s_end` inverts
// the ICRC. m_* is the outgoing beat.
// Invariant: s_end is 2 modulo 4; the frame includes the beat that contains byte s_end, and the next
// one if the ICRC does not end in it.
module icrc_insert (
    input  logic         clk,
    input  logic         rst,
    input  logic         move,

    input  logic         s_valid,
    input  logic [511:0] s_data,
    input  logic [6:0]   s_beat,
    input  logic         s_last,
    input  logic [6:0]   s_bytes,
    input  logic         s_vlan,
    input  logic         s_v6,
    input  logic [12:0]  s_end,
    input  logic         s_spoil,

    output logic         m_valid,
    output card_pkg::beat_t m,
    output logic         idle
);
    localparam int STAGES = 5;             // before the one that inserts
    logic [STAGES-1:0] valid, is_end, last;
    logic [1:0]   first;
    logic [3:0]   spoil;
    logic [511:0] data [STAGES];
    logic [6:0]   bytes [STAGES];
    logic [3:0]   word [STAGES];           // where s_end is in its beat: byte 4*word + 2
    always_ff @(posedge clk) begin
        if (move) begin
            data[0] <= s_data;
            bytes[0] <= s_bytes;
            word[0] <= s_end[5:2];
            for (int i = 1; i < STAGES; i++) begin
                data[i] <= data[i-1];
                bytes[i] <= bytes[i-1];
                word[i] <= word[i-1];
            end
            valid <= {valid[STAGES-2:0], s_valid};
            first <= {first[0], s_beat == '0};
            is_end <= {is_end[STAGES-2:0], {6'b0, s_beat} == s_end >> 6};
            spoil <= {spoil[2:0], s_spoil};
            last <= {last[STAGES-2:0], s_last};
        end
        if (rst) valid <= '0;
    end

    // -------------------------------------------------------- stages 1 to 3: mask, part of a beat, sum
    logic [511:0] masked, masked1;
    logic [31:0]  part, part2, state, advanced;
    icrc_mask mask (
        .data(s_data), .beat({4'b0, s_beat}), .vlan(s_vlan), .v6(s_v6), .frame_end({4'b0, s_end}), .masked
    );
    crc32_512 part_of_beat (.data(masked1), .crc(part));
    crc32_512 part_of_state (.data({480'b0, state}), .crc(advanced));
    always_ff @(posedge clk) begin
        if (move) begin
            masked1 <= masked;
            part2 <= part;
            if (valid[1]) state <= first[1] ? part2 : advanced ^ part2;
        end
    end

    // ------------------------- stages 4 and 5: the zero bytes after the end, 2 and up to 15 times 4
    logic [31:0] before2, before4, before8, before16, before32, after4, after8, half4, after16, icrc5;
    logic [3:0]  words3, words4;           // each stage looks at two bits
    wire unused_words3 = &{1'b0, words3, words4};
    assign words3 = 4'd15 - word[2];
    assign words4 = 4'd15 - word[3];
    crc32_unshift #(.BYTES(2)) unshift2 (.state, .earlier(before2));
    crc32_unshift #(.BYTES(4)) unshift4 (.state(before2), .earlier(before4));
    crc32_unshift #(.BYTES(8)) unshift8 (.state(after4), .earlier(before8));
    crc32_unshift #(.BYTES(16)) unshift16 (.state(half4), .earlier(before16));
    crc32_unshift #(.BYTES(32)) unshift32 (.state(after16), .earlier(before32));
    assign after4 = words3[0] ? before4 : before2;
    assign after8 = words3[1] ? before8 : after4;
    assign after16 = words4[2] ? before16 : half4;
    always_ff @(posedge clk) begin
        if (move) begin
            half4 <= after8;
            icrc5 <= (words4[3] ? before32 : after16) ^ {32{!spoil[3]}};
        end
    end

    // ----------------------------------------------------------------------- stage 6: into its place
    // Words of four bytes begin at byte 2; the upper half of the last one is in the next beat.
    logic [15:0]  upper;
    logic         is_carried;
    logic [511:0] inserted;
    always_comb begin
        inserted = data[4];
        for (int i = 0; i < 16; i++)
            if (is_end[4] && word[4] == 4'(i)) begin
                inserted[32*i + 16 +: 16] |= icrc5[15:0];
                if (i < 15) inserted[(32*i + 32) % 512 +: 16] |= icrc5[31:16];
            end
        if (is_carried) inserted[15:0] |= upper;
    end
    always_ff @(posedge clk) begin
        if (move) begin
            m_valid <= valid[4];
            m.data <= inserted;
            m.bytes <= bytes[4];
            m.last <= last[4];
            if (valid[4]) begin
                is_carried <= is_end[4] && word[4] == 4'd15;
                upper <= icrc5[31:16];
            end
        end
        if (rst) begin
            m_valid <= 1'b0;
            is_carried <= 1'b0;
        end
    end
    assign idle = valid == '0 && !m_valid;

    always_ff @(posedge clk) begin
        if (!rst && s_valid) assert (s_end[1:0] == 2'd2);
        if (!rst && m_valid && m.last) assert (!is_carried);
    end
endmodule

`default_nettype wire
