// SPDX-License-Identifier: MIT OR Apache-2.0
`default_nettype none

// One deadline for each QP: the local ACK timeout, or the time of an RNR NAK.
//
// Ports: two clients set deadlines: START, START_IF_STOPPED (a running deadline stays), STOP; the
// second client has priority. `expired_*` offers a QP whose deadline has passed, and stops its timer.
// Setting a deadline withdraws an offer of its QP. `deadline_valid` and `deadline_ns` are the
// earliest deadline when `idle`.
// Invariants: a deadline expires once; a lap over the deadlines takes one cycle for each running one,
// plus 16.
module timers (
    input  logic         clk,
    input  logic         rst,
    input  logic [63:0]  now_ns,

    input  logic [1:0]   set_valid,
    output logic [1:0]   set_ready,
    input  logic [3:0]   set_op,
    input  logic [15:0]  set_qp,
    input  logic [127:0] set_deadline,

    output logic         expired_valid,
    input  logic         expired_ready,
    output logic [7:0]   expired_qp,

    output logic         deadline_valid,
    output logic [63:0]  deadline_ns,
    output logic         idle
);
    localparam logic [1:0] STOP = 2'd0, START_IF_STOPPED = 2'd2;

    logic [255:0] running;

    // ------------------------------------------------------------------------------------- setting
    logic        chosen, is_set, is_change;
    logic [1:0]  op;
    logic [7:0]  qp;
    logic [63:0] deadline;
    assign chosen = set_valid[1];
    assign set_ready = {1'b1, !set_valid[1]};
    assign is_set = set_valid != '0;
    assign op = set_op[{chosen, 1'b0} +: 2];
    assign qp = set_qp[{chosen, 3'b0} +: 8];
    assign deadline = set_deadline[{chosen, 6'b0} +: 64];
    assign is_change = is_set && !(op == START_IF_STOPPED && running[qp]);

    logic [63:0] read_deadline;
    logic [7:0]  next_qp, looked_at;
    ram_1w1r #(.BITS(64), .LOG_DEPTH(8)) deadlines (
        .clk, .write_valid(is_change), .write_at(qp), .write_data(deadline), .read_at(next_qp),
        .read_data(read_deadline)
    );

    // ------------------------------------------------------------------------------------- the lap
    // Loads a group of 16 QPs, and then checks each running deadline.
    logic [3:0]  group, member;
    logic [15:0] rest;
    logic        look, is_over;
    always_comb begin
        member = '0;
        for (int n = 15; n >= 0; n--) if (rest[n]) member = 4'(n);
    end
    assign next_qp = {group, member};
    // A deadline that was set in the cycle of the check differs from the value that was read.
    assign is_over = look && running[looked_at] && !(is_change && qp == looked_at)
                  && read_deadline <= now_ns;

    logic        changed, least_valid;     // since the lap began
    logic [63:0] least;
    logic        settled;
    assign idle = settled && !expired_valid && !is_set && !(deadline_valid && deadline_ns <= now_ns);

    logic is_lap_end;
    assign is_lap_end = rest == '0 && group == '1 && !look;
    always_ff @(posedge clk) begin
        look <= 1'b0;
        if (!expired_valid && rest != '0 && !is_over) begin
            look <= 1'b1;
            looked_at <= next_qp;
            rest[member] <= 1'b0;
        end
        if (rest == '0 && !look) begin
            group <= group + 1'b1;
            rest <= running[{group + 4'd1, 4'b0} +: 16];
        end
        if (rst) begin
            look <= 1'b0;
            rest <= '0;
            group <= '0;
        end
    end

    always_ff @(posedge clk) begin
        if (look && running[looked_at] && (!least_valid || read_deadline < least)) begin
            least_valid <= 1'b1;
            least <= read_deadline;
        end
        if (is_change || is_over || expired_valid) begin
            changed <= 1'b1;
            settled <= 1'b0;
        end
        if (is_lap_end) begin
            least_valid <= 1'b0;
            changed <= is_change || expired_valid;
            settled <= !changed && !is_change && !expired_valid;
            deadline_valid <= least_valid;
            deadline_ns <= least;
        end
        if (rst) begin
            least_valid <= 1'b0;
            changed <= 1'b0;
            settled <= 1'b1;
            deadline_valid <= 1'b0;
        end
    end

    always_ff @(posedge clk) begin
        if (expired_ready) expired_valid <= 1'b0;
        if (is_over) begin
            expired_valid <= 1'b1;
            expired_qp <= looked_at;
            running[looked_at] <= 1'b0;
        end
        if (is_change) begin
            running[qp] <= op != STOP;
            if (expired_valid && expired_qp == qp) expired_valid <= 1'b0;
        end
        if (rst) begin
            running <= '0;
            expired_valid <= 1'b0;
        end
    end
endmodule

`default_nettype wire
