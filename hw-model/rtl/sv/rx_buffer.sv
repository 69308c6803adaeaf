// SPDX-License-Identifier: MIT OR Apache-2.0
`default_nettype none

// Receive buffer: holds frames until the verdict of roce_rx; passes on valid ones as packets, and
// their payloads as a stream of aligned beats.
//
// Ports: rx_* like s_* of roce_rx, never stalled; `rx_error` with the last beat: the MAC has found the
// frame damaged (wrong FCS). `mac`, `gids` and `gid_macs` are the card's addresses, as in own_address.
// packet_* are the valid frames, numbered from 1 on.
// payload_* is the payload of each of them, in the same order: byte 0 of the payload is byte 0 of the
// first beat, each beat but the last has 64 bytes; a frame without payload has one beat of no bytes. The payload of
// a datagram begins with the 40 bytes of the GRH: the IP header, after 20 zeros if it is IPv4 (IBTA annex A17.4.1.2).
// The payload of an atomic's response begins with its AtomicAckETH, in the host's byte order.
// `count` pulses once per frame; `count.bytes` is valid with `count.frame`, without FCS.
// Invariants: a frame that is malformed, damaged or too long for a packet is dropped without any
// effect; one that does not fit is dropped whole (`count.overflow`) and gets no number.
module rx_buffer #(
    parameter int LOG_BEATS = 10,          // 64 KiB
    parameter int LOG_PACKETS = 5
) (
    input  logic         clk,
    input  logic         rst,

    input  logic         rx_valid,
    input  card_pkg::beat_t rx,
    input  logic         rx_error,

    input  logic [47:0]  mac,
    input  logic [card_pkg::GIDS*128-1:0] gids,
    input  logic [card_pkg::GIDS*48-1:0]  gid_macs,

    output logic         packet_valid,
    input  logic         packet_ready,
    output card_pkg::rx_packet_t packet,

    output logic         payload_valid,
    input  logic         payload_ready,
    output card_pkg::beat_t payload,

    output card_pkg::frame_counts_t count,
    output logic         idle
);
    localparam int LOG_IN_FLIGHT = 3;      // at most 5 frames are between their last beat and their verdict
    localparam int PACKET_BITS = $bits(packet);
    localparam int PAYLOAD_BITS = LOG_BEATS + (LOG_BEATS + 1) + 8 + 13 + 4;
    localparam logic [15:0] GRH_BYTES = 16'(card_pkg::GRH_BYTES);

    // ------------------------------------------------------------------------ beats into the buffer
    // Positions are free-running, with one bit more than a beat's address.
    logic [LOG_BEATS:0] written, frame_start, freed;
    logic [15:0]        frame_bytes;
    logic               in_frame, overflowed, has_room, lost;

    assign has_room = written != {!freed[LOG_BEATS], freed[LOG_BEATS-1:0]};
    assign lost = (in_frame && overflowed) || !has_room;

    logic [16:0] frame_bytes_now;
    assign frame_bytes_now = {1'b0, in_frame ? frame_bytes : 16'd0} + {10'b0, rx.bytes};

    always_ff @(posedge clk) begin
        if (rx_valid) begin
            in_frame <= !rx.last;
            overflowed <= lost;
            frame_bytes <= frame_bytes_now[16] ? 16'hffff : frame_bytes_now[15:0];
            written <= lost ? frame_start : written + 1'b1;
            if (rx.last && !lost) frame_start <= written + 1'b1;
        end
        if (rst) begin
            in_frame <= 1'b0;
            written <= '0;
            frame_start <= '0;
        end
    end

    // ------------------------------------------------------- frames that have no verdict, in order
    logic         verdict, malformed, icrc_ok, is_v6, is_tagged, ack_request;
    logic [7:0]   opcode, payload_offset;
    logic [15:0]  p_key, payload_length;
    logic [23:0]  dest_qp, psn;
    logic [127:0] source, destination;
    logic [47:0]  destination_mac;
    logic [63:0]  address, swap_add, compare;
    logic [31:0]  r_key, length, aeth, immediate, q_key, source_qpn;   // the last one with its reserved bits
    logic [7:0]   flags;                   // only SE is passed on
    wire unused_flags = &{1'b0, flags, source_qpn, swap_add};

    logic               judged_valid, judged_lost, judged_error;
    logic [LOG_BEATS-1:0] judged_start;
    logic [LOG_BEATS:0] judged_end;
    logic [15:0]        judged_bytes;
    /* verilator lint_off PINCONNECTEMPTY */   // never full; headers of other services
    fifo #(.BITS(LOG_BEATS + (LOG_BEATS + 1) + 18), .LOG_DEPTH(LOG_IN_FLIGHT)) in_flight (
        .clk, .rst,
        .s_valid(rx_valid && rx.last), .s_ready(),
        .s_data({frame_start[LOG_BEATS-1:0], lost ? frame_start : written + 1'b1, frame_bytes_now[16] ? 16'hffff :
                 frame_bytes_now[15:0], rx_error, lost}),
        .m_valid(judged_valid), .m_ready(verdict),
        .m_data({judged_start, judged_end, judged_bytes, judged_error, judged_lost})
    );

    roce_rx parser (
        .clk, .rst, .s_valid(rx_valid), .s_data(rx.data), .s_bytes(rx.bytes), .s_last(rx.last), .m_valid(verdict),
        .m_malformed(malformed), .m_icrc_ok(icrc_ok), .m_is_v6(is_v6), .m_vlan(is_tagged), .m_opcode(opcode), .m_flags(flags),
        .m_p_key(p_key), .m_congestion(), .m_dest_qp(dest_qp), .m_ack_request(ack_request), .m_reserved7(),
        .m_psn(psn), .m_destination_mac(destination_mac), .m_source(source), .m_destination(destination), .m_srqn(),
        .m_address(address), .m_r_key(r_key), .m_length(length), .m_aeth(aeth), .m_immediate(immediate),
        .m_q_key(q_key), .m_source_qp(source_qpn), .m_swap_add(swap_add),
        .m_compare(compare), .m_original(), .m_payload_offset(payload_offset), .m_payload_length(payload_length)
    );
    /* verilator lint_on PINCONNECTEMPTY */

    logic [card_pkg::GIDS-1:0] to_gid;
    own_address destinations (.mac, .gids, .gid_macs, .destination_mac, .is_v6, .destination, .to_gid);

    // ------------------------------------------------------------------------------- the verdict
    logic        packets_idle, payloads_idle;
    logic        is_good, is_intact, is_right, packets_ready, payloads_ready, accepted;
    logic [15:0] number;                   // of the newest valid frame
    card_pkg::rx_packet_t judged;

    // The payload of a datagram comes with its GRH, and an atomic's response with its AtomicAckETH.
    logic        is_datagram, is_result, is_atomic;
    logic [7:0]  more;                     // bytes before the payload
    logic [15:0] whole_length;
    logic [7:0]  whole_offset;
    assign is_datagram = opcode[7:5] == card_pkg::UD_OPCODES[7:5];
    assign is_result = opcode == card_pkg::ATOMIC_ACKNOWLEDGE;
    assign is_atomic = opcode == {3'd0, card_pkg::COMPARE_SWAP} || opcode == {3'd0, card_pkg::FETCH_ADD};
    assign more = is_datagram ? GRH_BYTES[7:0] : is_result ? 8'(card_pkg::ATOMIC_BYTES) : 8'd0;
    assign whole_length = payload_length + {8'd0, more};
    assign whole_offset = payload_offset - more;
    assign is_good = !malformed && whole_length[15:13] == 3'd0;     // the limit of rx_packet_t
    assign is_intact = icrc_ok && !judged_error;
    assign is_right = verdict && !judged_lost && is_good && is_intact;
    assign accepted = is_right && packets_ready && payloads_ready;

    always_comb begin
        judged.to_gid = to_gid;
        judged.number = number + 16'd1;
        judged.opcode = opcode;
        judged.solicited = flags[7];
        judged.ack_request = ack_request;
        judged.p_key = p_key;
        judged.dest_qpn = dest_qp;
        judged.psn = psn;
        judged.is_v6 = is_v6;
        judged.source = source;
        judged.address = is_datagram ? {q_key, 8'b0, source_qpn[23:0]} : address;
        judged.r_key = r_key;
        judged.length = length;
        judged.compare = compare;
        judged.aeth = is_atomic ? swap_add[31:0] : aeth;
        judged.immediate = {immediate[7:0], immediate[15:8], immediate[23:16], immediate[31:24]};
        judged.payload_bytes = whole_length[12:0];
    end

    always_ff @(posedge clk) begin
        if (accepted) number <= number + 16'd1;
        if (rst) number <= '0;
    end

    always_ff @(posedge clk) begin
        count.frame <= verdict && !rst;
        count.bytes <= judged_bytes;
        count.overflow <= verdict && !rst && (judged_lost || (is_right && !accepted));
        count.malformed <= verdict && !rst && !judged_lost && !is_good && !judged_error;
        count.icrc_error <= verdict && !rst && !judged_lost && (judged_error || (is_good && !icrc_ok));
    end

    block_fifo #(.BITS(PACKET_BITS), .LOG_DEPTH(LOG_PACKETS)) packets (
        .clk, .rst, .s_valid(accepted), .s_ready(packets_ready), .s_data(judged), .m_valid(packet_valid),
        .m_ready(packet_ready), .m_data(packet), .idle(packets_idle)
    );

    // The places of payloads in the buffer. There are at most twice as many as packets: packets that
    // were handed over may not have been placed yet.
    logic               place_valid, place_ready, place_datagram, place_result, place_v6, place_tagged;
    logic [LOG_BEATS-1:0] place_start;
    logic [LOG_BEATS:0] place_end;
    logic [7:0]         place_offset;
    logic [12:0]        place_bytes;
    block_fifo #(.BITS(PAYLOAD_BITS), .LOG_DEPTH(LOG_PACKETS + 1)) payloads (
        .clk, .rst, .s_valid(accepted), .s_ready(payloads_ready),
        .s_data({judged_start, judged_end, whole_offset, whole_length[12:0], is_datagram, is_result, is_v6, is_tagged}),
        .m_valid(place_valid), .m_ready(place_ready),
        .m_data({place_start, place_end, place_offset, place_bytes, place_datagram, place_result, place_v6, place_tagged}),
        .idle(payloads_idle)
    );

    logic               reading_done, aligner_idle;
    logic [LOG_BEATS:0] reading_end;
    logic [LOG_BEATS-1:0] read_place;
    logic               beat_enable;
    logic [511:0]       beat;
    rx_aligner #(.LOG_BEATS(LOG_BEATS)) aligner (
        .clk, .rst, .place_valid, .place_ready, .place_start, .place_end, .place_offset, .place_bytes,
        .place_datagram, .place_result, .place_v6, .place_tagged, .done(reading_done), .done_end(reading_end), .beat_enable,
        .beat_place(read_place), .beat, .payload_valid,
        .payload_ready, .payload, .idle(aligner_idle)
    );

    // ---------------------------------------------------------------------------- the buffer's RAM
    logic [511:0] beats [1 << LOG_BEATS];
    always_ff @(posedge clk) begin
        if (rx_valid && !lost) beats[written[LOG_BEATS-1:0]] <= rx.data;
    end
    always_ff @(posedge clk) begin
        if (beat_enable) beat <= beats[read_place];
    end

    // When a frame has been read, the room up to its end is free. When no accepted frame is left to
    // be read, the room of all frames with a verdict is free: dropped frames occupy room until then.
    logic [LOG_PACKETS+1:0] unread;        // accepted frames that are not read
    logic [LOG_BEATS:0]     judged_up_to;
    always_ff @(posedge clk) begin
        if (verdict) judged_up_to <= judged_end;
        unread <= unread + {{(LOG_PACKETS+1){1'b0}}, accepted} - {{(LOG_PACKETS+1){1'b0}}, reading_done};
        if (reading_done) freed <= reading_end;
        else if (unread == '0) freed <= judged_up_to;
        if (rst) begin
            judged_up_to <= '0;
            unread <= '0;
            freed <= '0;
        end
    end

    assign idle = !rx_valid && !in_frame && !judged_valid && unread == '0 && aligner_idle
               && packets_idle && payloads_idle;

    always_ff @(posedge clk) begin
        if (!rst && verdict) assert (judged_valid);
    end
endmodule

`default_nettype wire
