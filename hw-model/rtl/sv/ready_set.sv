// SPDX-License-Identifier: MIT OR Apache-2.0
`default_nettype none

// A set of QPs with work, served round robin: groups of 16 in turn, and in each group its members in
// turn.
//
// Ports: `set_valid[i]` puts `set_qp[i]` into the set; `pick_valid` and `pick_qp` offer a member, and
// `pick_ready` removes it. `empty`: it has no member.
// Invariants: a member that is added again while it is taken stays; an offer stays until it is taken;
// every member is served before another one is served 256 times.
module ready_set #(
    parameter int SETS = 2
) (
    input  logic            clk,
    input  logic            rst,
    input  logic [SETS-1:0] set_valid,
    input  logic [8*SETS-1:0] set_qp,
    output logic            pick_valid,
    input  logic            pick_ready,
    output logic [7:0]      pick_qp,
    output logic            empty
);
    logic [255:0] members;
    logic [15:0]  groups;                  // with a member
    logic [3:0]   last_group;
    logic [63:0]  last_members;            // of each group
    assign empty = groups == '0;

    always_comb begin
        for (int g = 0; g < 16; g++) groups[g] = |members[16*g +: 16];
    end

    // Returns the first set bit after `last`, with wrap-around.
    function automatic logic [3:0] after(input logic [15:0] bits, input logic [3:0] last);
        after = last;
        for (int n = 16; n > 0; n--) begin
            if (bits[last + 4'(n)]) after = last + 4'(n);
        end
    endfunction

    logic [3:0] group, member;
    assign group = after(groups, last_group);
    assign member = after(members[{group, 4'b0} +: 16], last_members[{group, 2'b0} +: 4]);

    always_ff @(posedge clk) begin
        pick_valid <= groups != '0;
        pick_qp <= {group, member};
        // An offer stays, so that the offer of the previous cycle is still valid.
        if (pick_valid && !pick_ready) pick_qp <= pick_qp;
        if (pick_valid && pick_ready) begin
            pick_valid <= 1'b0;
            members[pick_qp] <= 1'b0;
            last_group <= pick_qp[7:4];
            last_members[{pick_qp[7:4], 2'b0} +: 4] <= pick_qp[3:0];
        end
        for (int i = 0; i < SETS; i++) begin
            if (set_valid[i]) members[set_qp[8*i +: 8]] <= 1'b1;
        end
        if (rst) begin
            members <= '0;
            last_group <= '1;
            last_members <= '1;
            pick_valid <= 1'b0;
        end
    end

    logic was_offering;
    logic [7:0] last_qp;
    always_ff @(posedge clk) begin
        was_offering <= !rst && pick_valid && !pick_ready;
        last_qp <= pick_qp;
        if (!rst && pick_valid) assert (members[pick_qp]);
        if (!rst && was_offering) assert (pick_valid && pick_qp == last_qp);
    end
endmodule

`default_nettype wire
