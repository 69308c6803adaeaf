// SPDX-License-Identifier: MIT OR Apache-2.0
`default_nettype none

// Headers of a RoCEv2 packet as bytes: Ethernet, IPv4 or IPv6, UDP, BTH, then RETH, AtomicETH, DETH or AETH, then
// ImmDt, IETH or AtomicAckETH.
// Three stages, one packet per cycle.
//
// Ports: a packet comes with packet_valid/packet_ready; the GID table answers `gid_index` in the same
// cycle. m_* holds until m_ready: byte i of the frame is m_header[8*i +: 8], the first `m_length`
// bytes are valid; `m_covered_end` is the offset of the ICRC, after the padding; `packet_responder`
// is passed through. packet_ready follows m_ready in the same cycle.
// Invariants: m_length and m_covered_end are 2 modulo 4; packets leave in order.
module packet_header (
    input  logic         clk,
    input  logic         rst,

    input  logic         packet_valid,
    output logic         packet_ready,
    input  card_pkg::tx_packet_t packet,
    input  logic         packet_responder,
    output logic [3:0]   gid_index,
    input  logic [127:0] gid,
    input  logic [47:0]  gid_mac,

    output logic         m_valid,
    input  logic         m_ready,
    output logic [847:0] m_header,
    output logic [6:0]   m_length,
    output logic         m_vlan,
    output logic         m_v6,
    output logic [12:0]  m_payload_bytes,
    output logic [12:0]  m_covered_end,
    output logic         m_responder,
    output logic [card_pkg::LOG_QPS-1:0] m_qp,
    output logic         idle
);
    localparam logic [15:0] ETHER_VLAN = 16'h8100, ETHER_V4 = 16'h0800, ETHER_V6 = 16'h86dd;
    localparam logic [15:0] NO_VLAN = 16'hffff;
    localparam logic [15:0] ROCE_PORT = 16'd4791;
    localparam logic [7:0]  IP_UDP = 8'd17;
    localparam logic [15:0] DONT_FRAGMENT = 16'h4000;
    localparam int PREFIX_OF_V4 = 96;      // bits of ::ffff:0:0 in a GID

    // Fields of the wire are big-endian.
    function automatic [15:0] swap16(input logic [15:0] number);
        swap16 = {number[7:0], number[15:8]};
    endfunction
    function automatic [31:0] swap32(input logic [31:0] number);
        swap32 = {number[7:0], number[15:8], number[23:16], number[31:24]};
    endfunction
    function automatic [63:0] swap64(input logic [63:0] number);
        swap64 = {swap32(number[31:0]), swap32(number[63:32])};
    endfunction
    function automatic logic is_mapped_v4(input logic [PREFIX_OF_V4-1:0] prefix);
        is_mapped_v4 = prefix == {16'hffff, 80'h0};
    endfunction

    // ------------------------------------------------------------------- stage 0: what was asked for
    card_pkg::tx_packet_t packet0, packet1;   // nothing reads the service level
    wire unused_packet0 = &{1'b0, packet0, packet1};
    logic         v0, ready0, responder0, responder1;
    logic [127:0] gid0;
    logic [47:0]  mac0;
    assign gid_index = packet.path.source_gid_index[card_pkg::LOG_GIDS-1:0];
    assign packet_ready = !v0 || ready0;
    always_ff @(posedge clk) begin
        if (packet_ready) begin
            v0 <= packet_valid;
            packet0 <= packet;
            gid0 <= gid;
            mac0 <= gid_mac;
            responder0 <= packet_responder;
        end
        if (rst) v0 <= 1'b0;
    end

    // ------------------------------------------------- stage 1: IP version, lengths, sum of the header
    logic         v4_0, has_reth0, has_aeth0, has_immediate0;
    logic [4:0]   extension0;              // bytes after the BTH
    logic [12:0]  udp_bytes0, padded0;
    logic [15:0]  identification;
    logic [19:0]  sum0;
    logic [5:0]   transport0;              // at most 40
    logic         known0, other0;          // for the assertion
    logic         has_xrceth0, has_deth0, has_feth0, has_atomiceth0, has_atomicacketh0, has_ieth0;
    wire unused_transport0 = &{1'b0, transport0};
    roce_opcode headers (
        .opcode(packet0.opcode), .known(known0), .has_xrceth(has_xrceth0), .has_deth(has_deth0),
        .has_feth(has_feth0), .has_reth(has_reth0), .has_atomiceth(has_atomiceth0), .has_aeth(has_aeth0),
        .has_atomicacketh(has_atomicacketh0), .has_immediate(has_immediate0), .has_ieth(has_ieth0),
        .length(transport0)
    );
    assign other0 = has_xrceth0 || has_feth0;
    always_comb begin
        v4_0 = is_mapped_v4(gid0[95:0]) && is_mapped_v4(packet0.path.dest_gid[95:0]);
        extension0 = (has_reth0 ? 5'd16 : 5'd0) + (has_deth0 ? 5'd8 : 5'd0) + (has_aeth0 ? 5'd4 : 5'd0)
                   + (has_immediate0 || has_ieth0 ? 5'd4 : 5'd0) + (has_atomiceth0 ? 5'd28 : 5'd0)
                   + (has_atomicacketh0 ? 5'd8 : 5'd0);
        padded0 = (packet0.payload_bytes + 13'd3) & 13'h1ffc;
        udp_bytes0 = 13'd24 + {8'b0, extension0} + padded0;    // UDP, BTH and ICRC are 24
        sum0 = {4'b0, 8'h45, packet0.path.traffic_class} + {4'b0, DONT_FRAGMENT}
             + {4'b0, packet0.path.hop_limit, IP_UDP} + {4'b0, identification}
             + {7'b0, udp_bytes0 + 13'd20}
             + {4'b0, swap16(gid0[111:96])} + {4'b0, swap16(gid0[127:112])}
             + {4'b0, swap16(packet0.path.dest_gid[111:96])}
             + {4'b0, swap16(packet0.path.dest_gid[127:112])};
    end

    logic         v1, ready1, v4_1, vlan1, has_reth1, has_deth1, has_aeth1, has_atomiceth1;
    logic [127:0] gid1;
    logic [47:0]  mac1;
    logic [4:0]   extension1;
    logic [12:0]  udp_bytes1, padded1;
    logic [15:0]  identification1;
    logic [19:0]  sum1;
    assign ready0 = !v1 || ready1;
    always_ff @(posedge clk) begin
        if (ready0) begin
            v1 <= v0;
            packet1 <= packet0;
            responder1 <= responder0;
            {gid1, mac1, v4_1, has_reth1, has_deth1} <= {gid0, mac0, v4_0, has_reth0, has_deth0};
            {has_aeth1, has_atomiceth1} <= {has_aeth0, has_atomiceth0};
            vlan1 <= packet0.path.vlan != NO_VLAN;
            {extension1, udp_bytes1, padded1} <= {extension0, udp_bytes0, padded0};
            {identification1, sum1} <= {identification, sum0};
            if (v0 && v4_0) identification <= identification + 1'b1;
        end
        if (rst) begin
            v1 <= 1'b0;
            identification <= '0;
        end
    end

    // ------------------------------------------------------------------------------ stage 2: the bytes
    logic [16:0]  fold1;
    logic [15:0]  checksum1;
    logic [6:0]   ethernet_ip1, length1;
    logic [159:0] ip_v4;
    logic [223:0] extension_bytes;
    logic [319:0] ip_v6;
    logic [383:0] tail;
    logic [111:0] ethernet;
    logic [31:0]  tag;
    always_comb begin
        fold1 = {1'b0, sum1[15:0]} + {13'b0, sum1[19:16]};
        checksum1 = ~(fold1[15:0] + {15'b0, fold1[16]});
        ethernet_ip1 = (vlan1 ? 7'd18 : 7'd14) + (v4_1 ? 7'd20 : 7'd40);
        length1 = ethernet_ip1 + 7'd20 + {2'b0, extension1};

        ethernet[95:0] = {mac1, packet1.path.dest_mac};
        ethernet[111:96] = swap16(vlan1 ? ETHER_VLAN : v4_1 ? ETHER_V4 : ETHER_V6);
        tag = {swap16(v4_1 ? ETHER_V4 : ETHER_V6), swap16(packet1.path.vlan)};

        ip_v4 = {packet1.path.dest_gid[127:96], gid1[127:96], swap16(checksum1), IP_UDP,
                 packet1.path.hop_limit, swap16(DONT_FRAGMENT), swap16(identification1),
                 swap16({3'b0, udp_bytes1 + 13'd20}), packet1.path.traffic_class, 8'h45};
        ip_v6 = {packet1.path.dest_gid, gid1, packet1.path.hop_limit, IP_UDP,
                 swap16({3'b0, udp_bytes1}),
                 swap32({4'd6, packet1.path.traffic_class, packet1.path.flow_label})};

        if (has_atomiceth1)
            extension_bytes = {swap64(packet1.compare), swap32(packet1.aeth), swap32(packet1.length),
                               swap32(packet1.r_key), swap64(packet1.address)};
        else if (has_reth1)
            extension_bytes = {64'b0, packet1.immediate, swap32(packet1.length), swap32(packet1.r_key),
                               swap64(packet1.address)};
        else if (has_deth1) extension_bytes = {128'b0, packet1.immediate, swap64(packet1.address)};
        else extension_bytes = {128'b0, swap64(packet1.address), has_aeth1 ? swap32(packet1.aeth) : packet1.immediate};
        tail = {extension_bytes,
                swap32({packet1.ack_request, 7'b0, packet1.psn}), swap32({8'b0, packet1.dest_qpn}),
                swap16(card_pkg::DEFAULT_P_KEY),
                packet1.solicited, 1'b0, 2'b0 - packet1.payload_bytes[1:0], 4'b0, packet1.opcode,
                16'b0, swap16({3'b0, udp_bytes1}), swap16(ROCE_PORT),
                swap16(packet1.path.udp_source_port)};
    end

    assign ready1 = !m_valid || m_ready;
    always_ff @(posedge clk) begin
        if (ready1) begin
            m_valid <= v1;
            case ({vlan1, v4_1})
                2'b01: m_header <= {192'b0, tail, ip_v4, ethernet};
                2'b11: m_header <= {160'b0, tail, ip_v4, tag, ethernet};
                2'b00: m_header <= {32'b0, tail, ip_v6, ethernet};
                default: m_header <= {tail, ip_v6, tag, ethernet};
            endcase
            m_length <= length1;
            {m_responder, m_qp} <= {responder1, packet1.qp};
            m_vlan <= vlan1;
            m_v6 <= !v4_1;
            m_payload_bytes <= packet1.payload_bytes;
            m_covered_end <= {6'b0, length1} + padded1;
        end
        if (rst) m_valid <= 1'b0;
    end
    assign idle = !v0 && !v1 && !m_valid;

    always_ff @(posedge clk) begin
        if (!rst && v0) assert (known0 && !other0);
        if (!rst && v0) assert (packet0.payload_bytes <= 13'd4096);
        if (!rst && m_valid) assert (m_length[1:0] == 2'd2);
    end
endmodule

`default_nettype wire
