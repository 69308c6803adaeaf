// SPDX-License-Identifier: MIT OR Apache-2.0
`default_nettype none

// Masks one 64-byte beat of a frame for the ICRC of RoCEv2 (IBTA annex A17): keeps the bytes from the
// IP header up to the ICRC, with ones in fields that the network may change.
//
// Ports: `beat` is the number of the beat in its frame, `frame_end` the first byte that is not
// covered. Combinational.
// Invariant: bytes that are not covered are zero, so that crc32_512 ignores them.
module icrc_mask (
    input  logic [511:0] data,
    input  logic [10:0]  beat,
    input  logic         vlan,
    input  logic         v6,
    input  logic [16:0]  frame_end,
    output logic [511:0] masked
);
    // CRC of the eight bytes of ones that replace the InfiniBand link header.
    localparam logic [31:0] STATE_OF_ONES = 32'hdebb20e3;

    // Bytes of a frame without VLAN tag that count as ones. IPv4: type of service, time to live,
    // checksum; IPv6: traffic class, flow label, hop limit; UDP checksum; BTH byte 4.
    function automatic [127:0] ones_of(input logic is_v6);
        ones_of = '0;
        if (is_v6) begin
            ones_of[17:15] = '1;
            ones_of[21] = 1'b1;
            ones_of[61:60] = '1;
            ones_of[66] = 1'b1;
        end else begin
            ones_of[15] = 1'b1;
            ones_of[22] = 1'b1;
            ones_of[25:24] = '1;
            ones_of[41:40] = '1;
            ones_of[46] = 1'b1;
        end
    endfunction

    logic [127:0] frame_ones;
    logic [63:0]  ones, covered;
    logic [16:0]  left;        // bytes from the start of this beat to frame_end
    always_comb begin
        frame_ones = vlan ? ones_of(v6) << 4 : ones_of(v6);
        ones = beat == 11'd0 ? frame_ones[63:0] : beat == 11'd1 ? frame_ones[127:64] : 64'h0;
        left = frame_end - {beat, 6'b0};
        if ({beat, 6'b0} >= frame_end) covered = '0;
        else if (left >= 17'd64) covered = '1;
        else covered = ~(64'hffff_ffff_ffff_ffff << left[5:0]);
        if (beat == 11'd0)
            covered &= vlan ? 64'hffff_ffff_fffc_0000 : 64'hffff_ffff_ffff_c000;
        for (int i = 0; i < 64; i++)
            masked[8*i +: 8] = covered[i] ? data[8*i +: 8] | {8{ones[i]}} : 8'h00;
        if (beat == 11'd0) begin
            // The upper half of the traffic class is in the same byte as the version of IPv6.
            if (v6 && vlan) masked[8*18 +: 4] = 4'hf;
            if (v6 && !vlan) masked[8*14 +: 4] = 4'hf;
            if (vlan) masked[8*18 +: 32] ^= STATE_OF_ONES;
            else masked[8*14 +: 32] ^= STATE_OF_ONES;
        end
    end
endmodule

`default_nettype wire
