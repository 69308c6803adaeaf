// SPDX-License-Identifier: MIT OR Apache-2.0
`default_nettype none

// RoCEv2 receive parser and ICRC check: one 64-byte beat per cycle without stalls, one verdict per
// frame.
//
// Ports: s_* is the frame from its Ethernet header on, without FCS; byte i of a beat is
// s_data[8*i +: 8], `s_bytes` of them are valid, all 64 unless it is the last beat. The verdict comes
// five cycles after the last beat. `m_malformed` is set for frames that ferroce_wire::Frame::parse
// refuses; the other outputs are valid only without it, and only if the opcode has their header.
// Invariants: one verdict for each frame, in order; bytes after the frame have no effect.
module roce_rx (
    input  logic         clk,
    input  logic         rst,
    input  logic         s_valid,
    input  logic [511:0] s_data,
    input  logic [6:0]   s_bytes,
    input  logic         s_last,

    output logic         m_valid,
    output logic         m_malformed,
    output logic         m_icrc_ok,
    output logic         m_is_v6,
    output logic         m_vlan,
    output logic [7:0]   m_opcode,
    output logic [7:0]   m_flags,         // BTH byte 1: SE, M, pad count, version
    output logic [15:0]  m_p_key,
    output logic [7:0]   m_congestion,    // BTH byte 4: FECN, BECN, reserved
    output logic [23:0]  m_dest_qp,
    output logic         m_ack_request,
    output logic [6:0]   m_reserved7,     // next to AckReq: the bits of selective recovery
    output logic [23:0]  m_psn,
    output logic [47:0]  m_destination_mac, // first octet in bits 7:0
    output logic [127:0] m_source,        // of IPv4: in bits 31:0
    output logic [127:0] m_destination,
    output logic [31:0]  m_srqn,          // XRCETH
    output logic [63:0]  m_address,       // RETH, AtomicETH
    output logic [31:0]  m_r_key,
    output logic [31:0]  m_length,        // RETH
    output logic [31:0]  m_aeth,
    output logic [31:0]  m_immediate,     // immediate data, IETH
    output logic [31:0]  m_q_key,         // DETH
    output logic [31:0]  m_source_qp,
    output logic [63:0]  m_swap_add,      // AtomicETH
    output logic [63:0]  m_compare,
    output logic [63:0]  m_original,      // AtomicAckETH
    output logic [7:0]   m_payload_offset,
    output logic [15:0]  m_payload_length
);
    localparam logic [15:0] ETHER_VLAN = 16'h8100, ETHER_V4 = 16'h0800, ETHER_V6 = 16'h86dd;
    localparam logic [7:0]  IP_UDP = 8'd17;
    localparam logic [15:0] ROCE_PORT = 16'd4791;
    localparam logic [31:0] POLYNOMIAL = 32'hedb88320, RESIDUE_OF_RIGHT_CRC = 32'hdebb20e3;

    // ---------------------------------------------------------------- stage 0: the beat as it came
    logic         v0, first0, last0;
    logic [511:0] d0;
    logic [6:0]   n0;
    logic         in_frame;

    always_ff @(posedge clk) begin
        v0 <= s_valid && !rst;
        d0 <= s_data;
        n0 <= s_bytes;
        last0 <= s_last;
        first0 <= !in_frame;
        if (s_valid) in_frame <= !s_last;
        if (rst) in_frame <= 1'b0;
    end

    function automatic [15:0] be16(input [511:0] d, input integer at);
        be16 = {d[8*at +: 8], d[8*at+8 +: 8]};
    endfunction

    // Start and end of the IP packet, from the first beat.
    logic        vlan0, v6_0;
    logic [15:0] ether0, ip_bytes0;
    logic [4:0]  ip_at0;
    logic [16:0] end0;
    always_comb begin
        vlan0 = be16(d0, 12) == ETHER_VLAN;
        ether0 = vlan0 ? be16(d0, 16) : be16(d0, 12);
        v6_0 = ether0 == ETHER_V6;
        ip_at0 = vlan0 ? 5'd18 : 5'd14;
        if (v6_0) ip_bytes0 = vlan0 ? be16(d0, 22) : be16(d0, 18);
        else ip_bytes0 = vlan0 ? be16(d0, 20) : be16(d0, 16);
        end0 = {12'b0, ip_at0} + {1'b0, ip_bytes0} + (v6_0 ? 17'd40 : 17'd0);
    end

    // ----------------------------------------------------------- stage 1: what the ICRC covers of it
    logic         v1, first1, last1, vlan1, v6_1;
    logic [511:0] d1, masked1;
    logic [16:0]  received1;   // bytes of the frame up to this beat, inclusive
    logic [10:0]  beat1;       // number of the beat
    logic [16:0]  end1;
    logic [15:0]  ether1, ip_bytes1;

    always_ff @(posedge clk) begin
        v1 <= v0 && !rst;
        first1 <= first0;
        last1 <= last0;
        d1 <= d0;
        if (v0) begin
            received1 <= (first0 ? 17'd0 : received1) + {10'b0, n0};
            beat1 <= first0 ? 11'd0 : beat1 + 11'd1;
        end
        if (v0 && first0) begin
            {vlan1, v6_1, end1, ether1, ip_bytes1} <= {vlan0, v6_0, end0, ether0, ip_bytes0};
        end
    end

    icrc_mask mask (.data(d1), .beat(beat1), .vlan(vlan1), .v6(v6_1), .frame_end(end1), .masked(masked1));

    // ----------------------------------------------------------- stage 2: headers stand in registers
    logic          v2, first2, last2, covers2, vlan2, v6_2;
    logic [511:0]  masked2;
    logic [1023:0] header2;   // the source's Ethernet address and the last bytes are not read
    wire unused_header2 = &{1'b0, header2};
    logic [16:0]   received2, end2;
    logic [15:0]   ether2, ip_bytes2;

    always_ff @(posedge clk) begin
        v2 <= v1 && !rst;
        first2 <= first1;
        last2 <= last1;
        masked2 <= masked1;
        covers2 <= {beat1, 6'b0} < end1;
        if (v1) begin
            received2 <= received1;
            if (first1) header2 <= {512'b0, d1};
            else if (beat1 == 11'd1) header2[1023:512] <= d1;
            {vlan2, v6_2, end2, ether2, ip_bytes2} <= {vlan1, v6_1, end1, ether1, ip_bytes1};
        end
    end

    logic [31:0] part2;
    crc32_512 data_part (.data(masked2), .crc(part2));

    // The IP header, and everything from UDP on, in their four places.
    logic [319:0] ip2;
    logic [415:0] udp2;   // UDP 8, BTH 12, XRCETH 4, AtomicETH 28
    always_comb begin
        ip2 = vlan2 ? header2[8*18 +: 320] : header2[8*14 +: 320];
        case ({v6_2, vlan2})
            2'b00: udp2 = header2[8*34 +: 416];
            2'b01: udp2 = header2[8*38 +: 416];
            2'b10: udp2 = header2[8*54 +: 416];
            default: udp2 = header2[8*58 +: 416];
        endcase
    end

    function automatic [15:0] ip16(input [319:0] d, input integer at);
        ip16 = {d[8*at +: 8], d[8*at+8 +: 8]};
    endfunction

    // The sum of the IPv4 header without its checksum.
    logic [19:0] sum2;
    always_comb begin
        sum2 = 20'b0;
        for (int i = 0; i < 20; i += 2) if (i != 10) sum2 += {4'b0, ip16(ip2, i)};
    end

    // ------------------------------------------------------------------ stage 3: fields and the sum
    logic         v3, first3, last3, covers3, vlan3, v6_3;
    logic [31:0]  part3;
    logic [319:0] ip3;
    logic [415:0] udp3;
    logic [19:0]  sum3;
    logic [16:0]  received3, end3;
    logic [15:0]  ether3, ip_bytes3;
    logic [47:0]  destination_mac3;
    always_ff @(posedge clk) begin
        v3 <= v2 && !rst;
        {first3, last3, covers3, vlan3, v6_3, part3} <= {first2, last2, covers2, vlan2, v6_2, part2};
        {ip3, udp3, sum3, received3, end3} <= {ip2, udp2, sum2, received2, end2};
        {ether3, ip_bytes3} <= {ether2, ip_bytes2};
        destination_mac3 <= header2[47:0];
    end

    logic [31:0] state, advanced, next_state;
    crc32_512 state_part (.data({480'b0, state}), .crc(advanced));
    assign next_state = first3 ? part3 : covers3 ? advanced ^ part3 : state;

    function automatic [31:0] be32(input [415:0] d, input integer at);
        be32 = {d[8*at +: 8], d[8*at+8 +: 8], d[8*at+16 +: 8], d[8*at+24 +: 8]};
    endfunction
    function automatic [63:0] be64(input [415:0] d, input integer at);
        be64 = {be32(d, at), be32(d, at + 4)};
    endfunction

    logic       known3, has_xrceth3, has_deth3, has_feth3, has_reth3, has_atomicacketh3;
    logic [5:0] transport3;   // bytes of all transport headers
    /* verilator lint_off PINCONNECTEMPTY */   // these headers are ignored
    roce_opcode headers (
        .opcode(udp3[8*8 +: 8]), .known(known3), .has_xrceth(has_xrceth3), .has_deth(has_deth3), .has_feth(has_feth3),
        .has_reth(has_reth3), .has_atomiceth(), .has_aeth(), .has_atomicacketh(has_atomicacketh3), .has_immediate(),
        .has_ieth(), .length(transport3)
    );
    /* verilator lint_on PINCONNECTEMPTY */

    logic [415:0] body3;      // after XRCETH, DETH and FETH
    assign body3 = has_deth3 || (has_xrceth3 && has_feth3) ? udp3 >> 8*28
                 : has_xrceth3 || has_feth3 ? udp3 >> 8*24 : udp3 >> 8*20;

    logic        ip_ok3, udp_ok3, length_ok3, checksum_ok3;
    logic [16:0] transport_bytes3, fold3;
    logic [17:0] payload3;   // bit 17: below zero
    wire unused_payload3 = &{1'b0, payload3};
    always_comb begin
        fold3 = {1'b0, sum3[15:0]} + {13'b0, sum3[19:16]};
        checksum_ok3 = ip16(ip3, 10) == ~(fold3[15:0] + {15'b0, fold3[16]});
        transport_bytes3 = {1'b0, ip_bytes3} - (v6_3 ? 17'd8 : 17'd28);
        if (v6_3)
            ip_ok3 = ip3[7:4] == 4'd6 && ip3[8*6 +: 8] == IP_UDP && ip_bytes3 >= 16'd8;
        else
            ip_ok3 = ether3 == ETHER_V4 && ip3[7:0] == 8'h45 && ip3[8*9 +: 8] == IP_UDP
                  && (ip16(ip3, 6) & 16'hbfff) == 16'h0 && ip_bytes3 >= 16'd28 && checksum_ok3;
        length_ok3 = end3 <= received3;
        udp_ok3 = {udp3[8*2 +: 8], udp3[8*3 +: 8]} == ROCE_PORT
               && {1'b0, udp3[8*4 +: 8], udp3[8*5 +: 8]} == transport_bytes3 + 17'd8;
        payload3 = {1'b0, transport_bytes3} - {12'b0, transport3} - 18'd4;
    end

    // The CRC state after a correct ICRC, if z zero bytes follow it in the last beat of the IP
    // packet.
    function automatic [31:0] residue(input integer z);
        logic [31:0] v;
        v = RESIDUE_OF_RIGHT_CRC;
        for (int i = 0; i < 8 * z; i++) v = v[0] ? (v >> 1) ^ POLYNOMIAL : v >> 1;
        residue = v;
    endfunction
    logic [31:0] residues [64];
    for (genvar z = 0; z < 64; z++) begin : g_residue
        localparam logic [31:0] RESIDUE = residue(z);
        assign residues[z] = RESIDUE;
    end

    // ------------------------------------------------------------------------- stage 4: the verdict
    logic        v4, ok4;
    logic [31:0] state4, expected4;
    logic [15:0] room4;       // payload and pad
    logic [1:0]  pad4;
    always_ff @(posedge clk) begin
        v4 <= v3 && last3 && !rst;
        if (v3) state <= next_state;
        state4 <= next_state;
        expected4 <= residues[6'd0 - end3[5:0]];
        pad4 <= udp3[8*9+4 +: 2];
        room4 <= payload3[15:0];
        ok4 <= known3 && ip_ok3 && udp_ok3 && length_ok3 && !payload3[17] && payload3[1:0] == 2'b00;
        m_destination_mac <= destination_mac3;
        m_is_v6 <= v6_3;
        m_vlan <= vlan3;
        m_opcode <= udp3[8*8 +: 8];
        m_flags <= udp3[8*9 +: 8];
        m_p_key <= {udp3[8*10 +: 8], udp3[8*11 +: 8]};
        m_congestion <= udp3[8*12 +: 8];
        m_dest_qp <= {udp3[8*13 +: 8], udp3[8*14 +: 8], udp3[8*15 +: 8]};
        m_ack_request <= udp3[8*16+7];
        m_reserved7 <= udp3[8*16 +: 7];
        m_psn <= {udp3[8*17 +: 8], udp3[8*18 +: 8], udp3[8*19 +: 8]};
        m_srqn <= be32(udp3, 20);
        m_q_key <= be32(udp3, 20);
        m_source_qp <= be32(udp3, 24);
        m_address <= be64(body3, 0);
        m_r_key <= be32(body3, 8);
        m_length <= be32(body3, 12);
        m_aeth <= be32(body3, 0);
        m_immediate <= has_reth3 ? be32(body3, 16) : be32(body3, 0);
        m_swap_add <= be64(body3, 12);
        m_compare <= be64(body3, 20);
        m_original <= has_atomicacketh3 ? be64(body3, 4) : 64'b0;
        m_payload_offset <= (vlan3 ? 8'd18 : 8'd14) + (v6_3 ? 8'd40 : 8'd20) + 8'd8 + {2'b0, transport3};
        for (int i = 0; i < 16; i++) begin
            m_source[8*(15-i) +: 8] <= v6_3 ? ip3[8*(8+i) +: 8] : i < 12 ? 8'h0 : ip3[8*i +: 8];
            m_destination[8*(15-i) +: 8] <=
                v6_3 ? ip3[8*(24+i) +: 8] : i < 12 ? 8'h0 : ip3[8*(4+i) +: 8];
        end
    end

    assign m_valid = v4;
    assign m_malformed = !(ok4 && room4 >= {14'b0, pad4});
    assign m_icrc_ok = state4 == expected4;
    assign m_payload_length = room4 - {14'b0, pad4};

    always_ff @(posedge clk) begin
        if (!rst && s_valid) begin
            assert (s_bytes <= 7'd64);
            assert (s_last ? s_bytes != 7'd0 : s_bytes == 7'd64);
        end
    end
endmodule

`default_nettype wire
