// SPDX-License-Identifier: MIT OR Apache-2.0
`default_nettype none

// The requester request interface (RQ) of PG213, 512 bits, dword-aligned, with the straddle option:
// writes as beats, and reads in the upper half of a write's last beat or in a beat of their own.
//
// Ports: beat_* as pcie_write_requests gives them, read_* as pcie_read_requests does; rq_* connect to
// s_axis_rq, sequence_* to pcie_rq_seq_num0 and 1. Without `bus_master` nothing is sent: writes are
// dropped, and refuse_* hands over the tags of reads. `passed` is the number of lines, counted like
// `written`, whose TLPs no completion can pass any more.
// Invariants: a read leaves after all lines that were written before it; a read waits for at most
// one write; a TLP that has begun is sent whole, without a gap.
module pcie_request_stream #(
    parameter int LOG_TAGS = 8,
    parameter int COUNT_BITS = 12
) (
    input  logic         clk,
    input  logic         rst,
    input  logic         bus_master,

    input  logic         beat_valid,
    output logic         beat_ready,
    input  logic [511:0] beat_data,
    input  logic [4:0]   beat_dwords,
    input  logic         beat_first,
    input  logic         beat_last,
    input  logic [7:0]   beat_enables,
    input  logic [3:0]   beat_lines,

    input  logic         read_valid,
    output logic         read_ready,
    input  logic [63:6]  read_address,
    input  logic [3:0]   read_lines,
    input  logic [LOG_TAGS-1:0] read_tag,
    input  logic [COUNT_BITS-1:0] read_after,
    output logic         refuse_valid,
    input  logic         refuse_ready,
    output logic [LOG_TAGS-1:0] refuse_tag,

    output logic         rq_valid,
    input  logic         rq_ready,
    output logic [511:0] rq_data,
    output logic [15:0]  rq_keep,
    output logic         rq_last,
    output logic [136:0] rq_user,
    input  logic [1:0]   sequence_valid,
    input  logic [5:0]   sequence_0,
    input  logic [5:0]   sequence_1,
    output logic [COUNT_BITS-1:0] passed
);
    localparam int LOG_WINDOW = 5;         // sequence numbers of writes; reads have bit 5 set
    localparam logic [4:0] HALF = 5'd8;    // dwords: a second TLP begins in the upper half

    // ---------------------------------------------------------- writes that completions could still pass
    // PG213, "Maintaining Transaction Order": the block reports the sequence number of a posted
    // request when no completion can pass it any more.
    logic [LOG_WINDOW-1:0] next, oldest, in_flight, beyond_0, beyond_1, reported;
    logic                  is_reported_0, is_reported_1;
    logic [COUNT_BITS-1:0] counts [1 << LOG_WINDOW];   // lines up to this write
    logic [COUNT_BITS-1:0] sent, sent_with_beat;
    logic                  takes_beat, takes_read, begins;
    assign in_flight = next - oldest;
    assign beyond_0 = sequence_0[LOG_WINDOW-1:0] - oldest;
    assign beyond_1 = sequence_1[LOG_WINDOW-1:0] - oldest;
    assign is_reported_0 = sequence_valid[0] && !sequence_0[5] && beyond_0 < in_flight;
    assign is_reported_1 = sequence_valid[1] && !sequence_1[5] && beyond_1 < in_flight;
    assign reported = is_reported_1 && !(is_reported_0 && beyond_0 > beyond_1) ? sequence_1[LOG_WINDOW-1:0]
                                                                               : sequence_0[LOG_WINDOW-1:0];
    assign sent_with_beat = sent + COUNT_BITS'(beat_lines);
    always_ff @(posedge clk) begin
        if (begins) counts[next] <= sent_with_beat;
    end

    // ------------------------------------------------------------------------- what leaves in this cycle
    logic writing, drops, is_dropped, has_room, has_window, may_begin, is_read_due, fits, read_first;
    logic [COUNT_BITS-1:0] ahead;          // of the read: lines that it has to wait for
    assign has_room = !rq_valid || rq_ready;
    assign has_window = in_flight != '1;
    assign is_dropped = beat_first ? !bus_master : drops;
    assign may_begin = writing || !beat_first || is_dropped || (has_window && !read_first);
    assign beat_ready = has_room && beat_valid && may_begin;
    assign takes_beat = beat_ready && !is_dropped;
    assign begins = takes_beat && beat_first;
    // A read joins the last beat of a write when both fit; these lines are then sent before it.
    assign ahead = read_after - (takes_beat && beat_last ? sent_with_beat : sent);
    assign is_read_due = read_valid && bus_master && (ahead == '0 || ahead[COUNT_BITS-1]);
    assign fits = !takes_beat || (beat_last && beat_dwords <= HALF);
    assign takes_read = has_room && is_read_due && fits && !(beat_ready && is_dropped) && (takes_beat || !writing);
    assign refuse_valid = read_valid && !bus_master;
    assign refuse_tag = read_tag;
    assign read_ready = takes_read || (refuse_valid && refuse_ready);

    logic [127:0] descriptor;
    logic [1:0]   starts;
    always_comb begin
        descriptor = '0;
        descriptor[63:6] = read_address;
        descriptor[74:64] = {3'b0, read_lines, 4'b0};
        descriptor[103:96] = 8'(read_tag);
        starts = {begins && takes_read, begins || takes_read};
    end
    assign rq_keep = '1;                   // with the straddle option the block reads rq_user instead
    always_ff @(posedge clk) begin
        if (rq_ready) rq_valid <= 1'b0;
        if (takes_beat || takes_read) begin
            rq_valid <= 1'b1;
            rq_last <= takes_read || beat_last;
            rq_data <= {beat_data[511:384], beat_data[383:256], beat_data[255:128], beat_data[127:0]};
            if (takes_read && takes_beat) rq_data[383:256] <= descriptor;
            if (takes_read && !takes_beat) rq_data[127:0] <= descriptor;
            rq_user <= '0;
            rq_user[3:0] <= begins ? beat_enables[3:0] : 4'hf;
            rq_user[7:4] <= 4'hf;
            rq_user[11:8] <= begins ? beat_enables[7:4] : 4'hf;
            rq_user[15:12] <= 4'hf;
            rq_user[21:20] <= starts;
            rq_user[23:22] <= takes_beat && !begins ? 2'd2 : 2'd0;
            rq_user[25:24] <= 2'd2;
            rq_user[27:26] <= takes_beat ? {beat_last && takes_read, beat_last} : 2'b01;
            rq_user[31:28] <= takes_beat ? 4'(beat_dwords - 1'b1) : 4'd3;
            rq_user[35:32] <= 4'd11;
            rq_user[66:61] <= begins ? {1'b0, next} : 6'd32;
            rq_user[72:67] <= 6'd32;
        end
        if (rst) rq_valid <= 1'b0;
    end

    always_ff @(posedge clk) begin
        if (beat_ready) begin
            writing <= takes_beat && !beat_last;
            if (beat_first) drops <= !bus_master;
            if (beat_last) sent <= sent_with_beat;
        end
        // A read that did not fit is next.
        if (takes_beat && beat_last) read_first <= is_read_due && !takes_read;
        if (takes_read || !read_valid || !bus_master) read_first <= 1'b0;
        if (begins) next <= next + 1'b1;
        if (is_reported_0 || is_reported_1) begin
            oldest <= reported + 1'b1;
            passed <= counts[reported];
        end
        if (in_flight == '0) passed <= sent;
        // Without bus mastering the block drops writes, and reports nothing.
        if (!bus_master && !writing && !begins) oldest <= next;
        if (rst) begin
            writing <= 1'b0;
            drops <= 1'b0;
            sent <= '0;
            read_first <= 1'b0;
            next <= '0;
            oldest <= '0;
            passed <= '0;
        end
    end

    always_ff @(posedge clk) begin
        if (!rst && writing) assert (beat_valid && !beat_first);
        if (!rst && beat_valid && !beat_first && !writing) assert (drops);
        if (!rst && takes_read) assert (read_lines != '0);
    end
endmodule

`default_nettype wire
