// SPDX-License-Identifier: MIT OR Apache-2.0
`default_nettype none

// Converts the card's lines to PCIe requests, on the 512-bit AXI4-Streams of AMD's hard blocks (RQ
// and RC of UltraScale+ PG213 and Versal PG343: dword-aligned, not straddled, user-managed tags).
//
// Ports: dma_* connect to `card`, rq_* to s_axis_rq, rc_* to m_axis_rc. The `ready` of both kinds of
// requests follow rq_ready in the same cycle. A posted write has no answer: no write error. A line is
// aligned to 64 bytes, so that a request crosses neither 4 KiB nor a read completion boundary, is
// within every MPS and MRRS, and a read has one completion.
// Invariants: requests leave in the order in which they were taken: no read passes a write. A tag
// belongs to one read until its completion. Each read returns one line; an unexpected completion
// returns none.
module pcie_requester #(
    parameter int LOG_TAGS = 8             // at most the 256 tags of 8 bits
) (
    input  logic         clk,
    input  logic         rst,

    input  logic         dma_read_valid,
    output logic         dma_read_ready,
    input  logic [63:0]  dma_read_iova,
    input  logic [card_pkg::TAG_BITS-1:0] dma_read_tag,
    output logic         dma_line_valid,
    output logic         dma_line_error,
    output logic [card_pkg::TAG_BITS-1:0] dma_line_tag,
    output logic [511:0] dma_line,
    input  logic         dma_write_valid,
    output logic         dma_write_ready,
    input  logic [63:0]  dma_write_iova,
    input  logic [511:0] dma_write_line,
    input  logic [63:0]  dma_write_strobe,

    output logic         rq_valid,
    input  logic         rq_ready,
    output logic [511:0] rq_data,
    output logic [15:0]  rq_keep,
    output logic         rq_last,
    output logic [136:0] rq_user,
    input  logic         rc_valid,
    output logic         rc_ready,
    input  logic [511:0] rc_data,
    input  logic [160:0] rc_user,
    input  logic         rc_last
);
    wire unused_inputs = &{1'b0, rc_data, rc_user};
    localparam int DWORDS = 16;            // of a line
    localparam int FIRST_DWORDS = 12;      // of payload in the beat of the descriptor

    // -------------------------------------------------------------------------------------- requests
    logic [LOG_TAGS-1:0] free_tag, done_tag;
    logic                has_tag, is_done, can_take, takes_read, takes_write, was_read;
    free_list #(.BITS(LOG_TAGS)) tags (
        .clk, .rst, .capacity((LOG_TAGS + 1)'(1 << LOG_TAGS)), .free_valid(has_tag), .free_number(free_tag),
        .take(takes_read), .give_valid(is_done), .give_number(done_tag)
    );

    logic wants_read;
    assign wants_read = dma_read_valid && has_tag;
    assign can_take = !rst && (!rq_valid || (rq_ready && rq_last));
    assign dma_write_ready = can_take && !(wants_read && !was_read);
    assign takes_write = dma_write_valid && dma_write_ready;
    assign dma_read_ready = can_take && has_tag && !takes_write;
    assign takes_read = dma_read_valid && dma_read_ready;

    // The dwords of a write that contain a written byte.
    logic [DWORDS-1:0] is_written;
    logic [3:0]        first, last;
    always_comb begin
        for (int n = 0; n < DWORDS; n++) is_written[n] = |dma_write_strobe[4*n +: 4];
        first = '0;
        last = '0;
        for (int n = DWORDS - 1; n >= 0; n--)
            if (is_written[n]) first = 4'(n);
        for (int n = 0; n < DWORDS; n++)
            if (is_written[n]) last = 4'(n);
    end

    logic                is_write, is_second;
    logic [63:2]         address;
    logic [511:0]        payload;          // from its first dword on
    logic [4:0]          dwords;
    logic [3:0]          first_enable, last_enable;
    logic [LOG_TAGS-1:0] tag;
    always_ff @(posedge clk) begin
        if (rq_ready) is_second <= rq_valid && !rq_last;
        if (rq_ready && rq_last) rq_valid <= 1'b0;
        if (takes_read) begin
            rq_valid <= 1'b1;
            is_write <= 1'b0;
            address <= {dma_read_iova[63:6], 4'b0};
            dwords <= 5'(DWORDS);
            first_enable <= '1;
            last_enable <= '1;
            tag <= free_tag;
        end
        if (takes_write) begin
            rq_valid <= is_written != '0;
            is_write <= 1'b1;
            address <= {dma_write_iova[63:6], first};
            payload <= dma_write_line >> {first, 5'b0};
            dwords <= {1'b0, last} - {1'b0, first} + 1'b1;
            first_enable <= dma_write_strobe[{first, 2'b0} +: 4];
            last_enable <= first == last ? '0 : dma_write_strobe[{last, 2'b0} +: 4];
            tag <= '0;
        end
        if (takes_read || takes_write) was_read <= takes_read;
        if (rst) begin
            rq_valid <= 1'b0;
            is_second <= 1'b0;
            was_read <= 1'b0;
        end
    end

    logic [127:0] descriptor;
    logic         is_long;
    logic [4:0]   beat_dwords;
    always_comb begin
        descriptor = '0;
        descriptor[63:2] = address;
        descriptor[74:64] = {6'b0, dwords};
        descriptor[78:75] = {3'b0, is_write};
        descriptor[103:96] = 8'(tag);
        is_long = is_write && dwords > 5'(FIRST_DWORDS);
        rq_last = is_second || !is_long;
        rq_data = is_second ? {384'b0, payload[511:384]} : {payload[383:0], descriptor};
        beat_dwords = 5'd4;                                     // the descriptor
        if (is_write) beat_dwords = is_long ? 5'(DWORDS) : 5'd4 + dwords;
        if (is_second) beat_dwords = dwords - 5'(FIRST_DWORDS);
        for (int n = 0; n < DWORDS; n++) rq_keep[n] = 5'(n) < beat_dwords;
        rq_user = '0;                                           // no straddling: sop and eop are ignored
        rq_user[3:0] = first_enable;
        rq_user[11:8] = last_enable;
    end

    // ----------------------------------------------------------------------------------- completions
    logic [card_pkg::TAG_BITS-1:0] card_tags [1 << LOG_TAGS];
    logic [2**LOG_TAGS-1:0] is_outstanding;
    logic                   is_rest;       // this beat is the second one
    logic                   rest_error, rest_done;
    logic [LOG_TAGS-1:0]    rest_tag;
    logic [415:0]           begun;
    logic                   is_bad, ends_request, has_known_tag;
    assign rc_ready = 1'b1;
    assign has_known_tag = {1'b0, rc_data[71:64]} >> LOG_TAGS == '0;
    // Error code, status, poisoned, a length other than a line's; the last three are errors of this
    // completion.
    assign is_bad = rc_data[15:12] != '0 || rc_data[45:43] != '0 || rc_data[46] || rc_data[42:32] != 11'(DWORDS);
    assign ends_request = (rc_data[30] || rc_data[15:12] != '0) && has_known_tag;
    assign done_tag = is_rest ? rest_tag : rc_data[64 +: LOG_TAGS];
    assign is_done = rc_valid && rc_last && (is_rest ? rest_done : ends_request) && is_outstanding[done_tag];
    always_ff @(posedge clk) begin
        if (takes_read) card_tags[free_tag] <= dma_read_tag;
    end
    always_ff @(posedge clk) begin
        if (rc_valid) begin
            is_rest <= !rc_last;
            if (!is_rest) begin
                begun <= rc_data[511:96];
                rest_tag <= done_tag;
                rest_error <= is_bad;
                rest_done <= ends_request;
            end
        end
        dma_line_valid <= is_done;
        dma_line_tag <= card_tags[done_tag];
        dma_line <= {rc_data[95:0], is_rest ? begun : rc_data[511:96]};
        // A whole line takes two beats.
        dma_line_error <= rc_user[96] || !is_rest || rest_error;
        if (is_done) is_outstanding[done_tag] <= 1'b0;
        if (takes_read) is_outstanding[free_tag] <= 1'b1;
        if (rst) begin
            is_rest <= 1'b0;
            dma_line_valid <= 1'b0;
            is_outstanding <= '0;
        end
    end

    // Lines are aligned. The bytes of a write are contiguous, because byte enables of a TLP with
    // three or more dwords cannot express more.
    logic [63:0] above;
    assign above = (dma_write_strobe | (dma_write_strobe - 1'b1)) + 1'b1;
    always_ff @(posedge clk) begin
        if (takes_read) assert (dma_read_iova[5:0] == '0);
        if (takes_write) assert (dma_write_iova[5:0] == '0 && (above & dma_write_strobe) == '0);
    end
endmodule

`default_nettype wire
