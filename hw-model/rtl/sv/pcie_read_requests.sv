// SPDX-License-Identifier: MIT OR Apache-2.0
`default_nettype none

// Joins reads of lines to memory read requests of at most MRRS, and allocates their PCIe tags.
//
// Ports: read_* takes reads of the card. `written` is the number of lines that the card has written:
// request_after is its value when the last line was joined. request_* gives the requests. line_* names
// the card's tag of line n of a PCIe tag; begin_* pulses before the request is given. done_* frees a
// tag.
// Invariants: a request does not cross 4 KiB and is not longer than MRRS; a tag belongs to one
// request until it is freed; without cfg_ext_tag only tags of 5 bits are used. A read waits at most
// HOLD cycles for the next one if no other request is waiting.
module pcie_read_requests #(
    parameter int LOG_TAGS = 8,            // 5 to 8
    parameter int COUNT_BITS = 12,
    parameter int HOLD = 2
) (
    input  logic         clk,
    input  logic         rst,
    input  logic [2:0]   cfg_max_read_req, // of Device Control: 128 bytes, 256, and so on
    input  logic         cfg_ext_tag,      // of Device Control: Extended Tag Field Enable

    input  logic         read_valid,
    output logic         read_ready,
    input  logic [63:0]  read_iova,
    input  logic [card_pkg::TAG_BITS-1:0] read_tag,
    input  logic [COUNT_BITS-1:0] written,
    output logic         idle,             // no tag is in use

    output logic         line_valid,
    output logic [LOG_TAGS+2:0] line_at,   // tag, line
    output logic [card_pkg::TAG_BITS-1:0] line_tag,
    output logic         begin_valid,
    output logic [LOG_TAGS-1:0] begin_tag,
    output logic [3:0]   begin_lines,
    input  logic         done_valid,
    input  logic [LOG_TAGS-1:0] done_tag,

    output logic         request_valid,
    input  logic         request_ready,
    output logic [63:6]  request_address,
    output logic [3:0]   request_lines,
    output logic [LOG_TAGS-1:0] request_tag,
    output logic [COUNT_BITS-1:0] request_after
);
    wire unused_inputs = &{1'b0, read_iova};
    localparam int LOG_REQUESTS = 3;
    localparam int LINES_MAX = 8;
    localparam int SHORT_TAGS = 32;        // of 5 bits

    // ------------------------------------------------------------------------------------------ tags
    // Software changes Extended Tag Field Enable while no request is outstanding (PCIe base
    // specification, 7.5.3.4); if it does not, no request begins until the last tag is free.
    logic              extended, changes, has_tag, opens;
    logic [LOG_TAGS:0] used, capacity;
    logic [LOG_TAGS-1:0] free_tag;
    logic              free_valid;
    assign changes = extended != cfg_ext_tag && used == '0;
    assign capacity = extended ? (LOG_TAGS + 1)'(1 << LOG_TAGS) : (LOG_TAGS + 1)'(SHORT_TAGS);
    assign has_tag = free_valid && extended == cfg_ext_tag;
    assign idle = used == '0;
    free_list #(.BITS(LOG_TAGS)) tags (
        .clk, .rst(rst || changes), .capacity, .free_valid, .free_number(free_tag), .take(opens),
        .give_valid(done_valid), .give_number(done_tag)
    );
    always_ff @(posedge clk) begin
        used <= used + (LOG_TAGS + 1)'(opens) - (LOG_TAGS + 1)'(done_valid);
        if (changes) extended <= cfg_ext_tag;
        if (rst) begin
            used <= '0;
            extended <= 1'b0;
        end
    end

    // ---------------------------------------------------------------- the read that is joined next
    logic        held, joins;
    logic [63:6] held_address;
    logic [card_pkg::TAG_BITS-1:0] held_tag;
    assign read_ready = !rst && (!held || joins);
    always_ff @(posedge clk) begin
        if (joins) held <= 1'b0;
        if (read_valid && read_ready) begin
            held <= 1'b1;
            held_address <= read_iova[63:6];
            held_tag <= read_tag;
        end
        if (rst) held <= 1'b0;
    end

    // ------------------------------------------------------------------------------ the open request
    logic        open, grows, continues, closes, fifo_ready;
    logic [63:6] address, next;
    logic [3:0]  lines, lines_max;
    logic [1:0]  waited;
    logic [LOG_TAGS-1:0] tag;
    logic [COUNT_BITS-1:0] after;
    assign lines_max = cfg_max_read_req[2] || cfg_max_read_req[1] ? 4'(LINES_MAX) : 4'd2 << cfg_max_read_req[0];
    assign continues = open && grows && held_address == next && lines < lines_max;
    assign closes = open && fifo_ready
                    && (held ? !continues : !grows || lines >= lines_max || (waited == 2'(HOLD) && !request_valid));
    assign joins = held && (continues || ((!open || closes) && has_tag));
    assign opens = joins && !continues;
    always_ff @(posedge clk) begin
        if (closes) open <= 1'b0;
        if (!held && waited != 2'(HOLD)) waited <= waited + 1'b1;
        if (joins) begin
            open <= 1'b1;
            waited <= '0;
            grows <= held_address[11:6] != '1;
            next <= held_address + 1'b1;
            lines <= continues ? lines + 1'b1 : 4'd1;
            after <= written;              // it includes writes that were taken with this read
        end
        if (opens) begin
            address <= held_address;
            tag <= free_tag;
        end
        if (rst) open <= 1'b0;
    end
    assign line_valid = joins;
    assign line_at = continues ? {tag, lines[2:0]} : {free_tag, 3'b0};
    assign line_tag = held_tag;
    assign begin_valid = closes;
    assign begin_tag = tag;
    assign begin_lines = lines;

    fifo #(.BITS(58 + 4 + LOG_TAGS + COUNT_BITS), .LOG_DEPTH(LOG_REQUESTS)) requests (
        .clk, .rst, .s_valid(closes), .s_ready(fifo_ready), .s_data({address, lines, tag, after}),
        .m_valid(request_valid), .m_ready(request_ready),
        .m_data({request_address, request_lines, request_tag, request_after})
    );

    always_ff @(posedge clk) begin
        if (!rst && read_valid) assert (read_iova[5:0] == '0);
        if (!rst && done_valid) assert (used != '0);
    end
endmodule

`default_nettype wire
