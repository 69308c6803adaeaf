// SPDX-License-Identifier: MIT OR Apache-2.0
`default_nettype none

// The requester completion interface (RC) of PG213, 512 bits, dword-aligned, with the straddle option
// for up to four TLPs: completions become lines with the card's tags.
//
// Ports: rc_* connect to m_axis_rc. begin_* opens a tag with its number of lines, name_* is the card's
// tag of each; done_* pulses when a tag is free. refuse_* ends a request that was not sent. dma_line_*
// gives lines in any order, one a cycle.
// Invariants: each line of a request is given once, with an error unless its TLP was whole, without
// an error, and the next one of its request. A line is given after the end of its TLP, because
// `discontinue` comes then. A tag is free after "request completed". A request whose completions do
// not come for two periods of 2^LOG_TIMEOUT cycles ends with errors, and keeps its tag until they do.
module pcie_read_completions #(
    parameter int LOG_TAGS = 8,
    parameter int LOG_TIMEOUT = 24         // 67 ms: the block's own completion time-out is shorter
) (
    input  logic         clk,
    input  logic         rst,

    input  logic         name_valid,
    input  logic [LOG_TAGS+2:0] name_at,
    input  logic [card_pkg::TAG_BITS-1:0] name_tag,
    input  logic         begin_valid,
    input  logic [LOG_TAGS-1:0] begin_tag,
    input  logic [3:0]   begin_lines,
    output logic         done_valid,
    output logic [LOG_TAGS-1:0] done_tag,
    input  logic         refuse_valid,
    output logic         refuse_ready,
    input  logic [LOG_TAGS-1:0] refuse_tag,

    input  logic         rc_valid,
    output logic         rc_ready,
    input  logic [511:0] rc_data,
    input  logic [160:0] rc_user,

    output logic         dma_line_valid,
    output logic         dma_line_error,
    output logic [card_pkg::TAG_BITS-1:0] dma_line_tag,
    output logic [511:0] dma_line
);
    localparam int TAGS = 1 << LOG_TAGS;
    localparam logic [3:0] INVALID_TAG = 4'd6;   // an error code: the completion of no request

    // ------------------------------------------------------------------- parts of beats: a TLP's line
    logic               part_ready, part_valid, continues, ends, discontinue, starts, ends_at_once;
    logic [511:0]       line;
    logic [95:0]        header;
    pcie_completion_parts parts (
        .clk, .rst, .rc_valid, .rc_ready, .rc_data, .rc_user, .part_valid, .part_ready, .continues, .ends, .discontinue,
        .line, .starts, .ends_at_once, .header
    );

    // --------------------------------------------------------------------------------- open requests
    // Three bits and two numbers for each tag: its next line and its number of lines.
    logic [TAGS-1:0]    is_open, is_fresh, is_spoilt;
    logic [3:0]         nexts [TAGS];      // of a tag that is not fresh
    logic [3:0]         totals [TAGS];
    logic [1:0]         periods [TAGS];    // in which it began
    always_ff @(posedge clk) begin
        if (begin_valid) totals[begin_tag] <= begin_lines;
    end
    logic [LOG_TIMEOUT+1:0] clock;
    always_ff @(posedge clk) begin
        if (begin_valid) periods[begin_tag] <= clock[LOG_TIMEOUT+1:LOG_TIMEOUT];
    end

    // Fields of the descriptor (PG213, "Requester Completion Descriptor Format").
    logic [LOG_TAGS-1:0] tag;
    logic [12:0]        byte_count;
    logic [10:0]        dwords;
    logic [3:0]         next, total, count;
    logic               is_known, is_completed, is_good;
    assign tag = header[64 +: LOG_TAGS];
    assign byte_count = header[28:16];
    assign dwords = header[42:32];
    assign is_known = {1'b0, header[71:64]} >> LOG_TAGS == '0 && is_open[tag] && header[15:12] != INVALID_TAG;
    assign is_completed = header[30] && is_known;
    assign next = is_fresh[tag] ? '0 : nexts[tag];
    assign total = totals[tag];
    assign count = dwords[7:4];            // lines
    // No error code, successful, not poisoned; whole lines, and the next ones. After a poisoned
    // completion, PG213 wants all data of the request discarded.
    assign is_good = is_known && !is_spoilt[tag] && !ends_at_once && header[15:12] == '0 && header[45:43] == '0
                     && !header[46] && header[5:0] == '0 && dwords[10:8] == '0 && dwords[3:0] == '0 && count != '0
                     && next != total && byte_count == {3'b0, total - next, 6'b0} && count <= total - next;

    // -------------------------------------------------------------------- the TLP that is being received
    logic [LOG_TAGS-1:0] its_tag;
    logic [3:0]         its_next, its_end, its_total, after_line;
    logic               its_completed, its_frees, stores;
    logic [3:0]         its_lines;         // stored, until its end
    assign stores = part_valid && part_ready && continues && its_next != its_end;
    assign after_line = its_next + 4'(stores);
    always_ff @(posedge clk) begin
        if (part_valid && part_ready) begin
            its_next <= after_line;
            if (continues) its_lines <= ends ? '0 : its_lines + 4'(stores);
            if (starts) begin
                its_tag <= tag;
                its_next <= next;
                its_end <= is_good ? next + count : next;
                its_total <= total;
                its_completed <= is_completed;
                its_lines <= '0;
            end
        end
        if (rst) begin
            its_next <= '0;
            its_end <= '0;
            its_lines <= '0;
            its_completed <= 1'b0;
        end
    end

    // ------------------------------------------------------------------------ lines that end with an error
    // A range of lines of a tag; `frees`: the tag is free after it. One for the TLP that ends, and one
    // for a TLP that begins and ends in the same part, for a refused request, or for a time-out.
    logic               tail_valid, tail_frees, head_valid, head_frees, is_filling;
    logic [LOG_TAGS-1:0] tail_tag, head_tag;
    logic [3:0]         tail_from, tail_to, head_from, head_to;
    logic               fill_frees, fill_last;
    logic [LOG_TAGS-1:0] fill_tag;
    logic [3:0]         fill_from, fill_to;
    assign is_filling = tail_valid || head_valid;
    assign {fill_tag, fill_from, fill_to, fill_frees} = tail_valid ? {tail_tag, tail_from, tail_to, tail_frees}
                                                                   : {head_tag, head_from, head_to, head_frees};
    assign fill_last = fill_from == fill_to || fill_from + 1'b1 == fill_to;

    // The request that is looked at for a time-out, one after the other.
    logic [LOG_TAGS-1:0] watched;
    logic [3:0]         watched_next;
    logic [1:0]         watched_age;
    logic               is_late, is_between, gives_up;
    assign watched_next = is_fresh[watched] ? '0 : nexts[watched];
    assign watched_age = clock[LOG_TIMEOUT+1:LOG_TIMEOUT] - periods[watched];
    assign is_late = is_open[watched] && watched_next != totals[watched] && watched_age[1];
    // Between the lines of different TLPs, and not in the middle of the request itself.
    assign is_between = !is_filling && its_lines == '0;
    assign gives_up = is_late && is_between && !refuse_valid && !(its_tag == watched && its_next != its_end);
    assign refuse_ready = is_between;
    assign part_ready = !is_filling && !(refuse_valid && is_between) && !gives_up;

    logic               is_short, tail_begins, head_begins;
    assign is_short = after_line != its_end;
    assign its_frees = its_completed && after_line == its_total && !is_short && stores;
    assign tail_begins = part_valid && part_ready && continues && ends && (is_short || (its_completed && !its_frees));
    assign head_begins = part_valid && part_ready && starts && ends_at_once && is_completed;
    always_ff @(posedge clk) begin
        if (tail_valid) begin
            tail_from <= fill_from + 1'b1;
            if (fill_last) tail_valid <= 1'b0;
        end else if (head_valid) begin
            head_from <= fill_from + 1'b1;
            if (fill_last) head_valid <= 1'b0;
        end
        if (tail_begins) begin
            tail_valid <= 1'b1;
            tail_tag <= its_tag;
            tail_from <= after_line;
            tail_to <= its_completed ? its_total : its_end;
            tail_frees <= its_completed;
        end
        if (head_begins) begin
            head_valid <= 1'b1;
            head_tag <= tag;
            head_from <= next;
            head_to <= total;
            head_frees <= 1'b1;
        end
        if (refuse_valid && refuse_ready) begin
            head_valid <= 1'b1;
            head_tag <= refuse_tag;
            head_from <= '0;
            head_to <= totals[refuse_tag];
            head_frees <= 1'b1;
        end
        if (gives_up) begin
            head_valid <= 1'b1;
            head_tag <= watched;
            head_from <= watched_next;
            head_to <= totals[watched];
            head_frees <= 1'b0;
        end
        clock <= clock + 1'b1;
        if (!is_late || gives_up || (its_tag == watched && is_between)) watched <= watched + 1'b1;
        if (rst) begin
            tail_valid <= 1'b0;
            head_valid <= 1'b0;
            clock <= '0;
            watched <= '0;
        end
    end

    logic               advances;
    assign advances = part_valid && part_ready && starts && is_good;
    always_ff @(posedge clk) begin
        if (advances || gives_up) nexts[gives_up ? watched : tag] <= gives_up ? totals[watched] : next + count;
    end
    always_ff @(posedge clk) begin
        if (advances) is_fresh[tag] <= 1'b0;
        if (gives_up) is_fresh[watched] <= 1'b0;
        if (part_valid && part_ready && starts && is_known && !is_good) is_spoilt[tag] <= 1'b1;
        if (part_valid && part_ready && starts && is_completed) is_open[tag] <= 1'b0;
        if (refuse_valid && refuse_ready) is_open[refuse_tag] <= 1'b0;
        if (begin_valid) begin
            is_open[begin_tag] <= 1'b1;
            is_fresh[begin_tag] <= 1'b1;
            is_spoilt[begin_tag] <= 1'b0;
        end
        if (rst) is_open <= '0;
    end

    // -------------------------------------------------------------------------------------- the lines
    pcie_completion_lines #(.LOG_TAGS(LOG_TAGS)) lines (
        .clk, .rst, .name_valid, .name_at, .name_tag, .store_valid(stores || is_filling),
        .store_tag(is_filling ? fill_tag : its_tag), .store_number(is_filling ? fill_from[2:0] : its_next[2:0]),
        .store_line(line), .store_is_line(!is_filling || fill_from != fill_to),
        .store_frees(is_filling ? fill_frees && fill_last : its_frees && ends),
        .commit_valid(is_filling || (part_valid && part_ready && continues && ends)),
        .commit_error(is_filling || discontinue || is_short), .done_valid, .done_tag, .dma_line_valid, .dma_line_error,
        .dma_line_tag, .dma_line
    );
    wire unused_bits = &{1'b0, header, watched_age};
endmodule

`default_nettype wire
