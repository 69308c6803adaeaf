// SPDX-License-Identifier: MIT OR Apache-2.0
`default_nettype none

// Cuts the beats of RC (PG213, 512 bits, dword-aligned, straddled or not) into parts: the rest of at
// most one TLP, then the start of at most one.
//
// Ports: rc_* connect to m_axis_rc. A part `continues` a TLP, whose next line of 64 bytes is then in
// `line`; `ends` and `discontinue` belong to this TLP. A part also `starts` a TLP with its descriptor
// in `header`; `ends_at_once`: it has less than a line.
// Invariants: of a TLP with n lines, the part that starts it and the n parts after it hold it all,
// because its descriptor has 3 dwords. Most beats are one part; a beat with more starts takes a cycle
// for each.
module pcie_completion_parts (
    input  logic         clk,
    input  logic         rst,
    input  logic         rc_valid,
    output logic         rc_ready,
    input  logic [511:0] rc_data,
    input  logic [160:0] rc_user,

    output logic         part_valid,
    input  logic         part_ready,
    output logic         continues,
    output logic         ends,
    output logic         discontinue,
    output logic [511:0] line,
    output logic         starts,
    output logic         ends_at_once,
    output logic [95:0]  header
);
    wire unused_user = &{1'b0, rc_user};

    logic [3:0]   is_sop, is_eop;
    logic [7:0]   sop_places;              // 16 bytes each
    assign is_sop = rc_user[67:64];
    assign sop_places = rc_user[75:68];
    assign is_eop = rc_user[79:76];

    logic         open;                    // a TLP continues in this beat
    logic [1:0]   place, start_place;      // of the first 16 bytes of the TLP
    logic [1:0]   number;                  // of the start that is next in this beat
    logic [511:0] previous;
    logic         takes, is_last, has_start, start_ends;
    logic [3:0]   ends_from_start;
    assign takes = rc_valid && !rst && (!part_valid || part_ready);
    assign has_start = is_sop[number];
    assign start_place = sop_places[2*number +: 2];
    // The ends are in the order of the starts; the first one belongs to the TLP that continues.
    assign ends_from_start = is_eop >> open;
    assign start_ends = ends_from_start[number];
    assign is_last = number == 2'd3 || !is_sop[number + 1'b1];
    assign rc_ready = takes && is_last;
    always_ff @(posedge clk) begin
        if (part_ready) part_valid <= 1'b0;
        if (takes) begin
            part_valid <= 1'b1;
            continues <= open && number == '0;
            ends <= is_eop[0];
            discontinue <= rc_user[96];
            // A line begins after the three dwords of the descriptor.
            line <= 512'({rc_data, previous} >> ({place, 7'b0} + 9'd96));
            starts <= has_start;
            ends_at_once <= start_ends;
            header <= rc_data[128*start_place +: 96];
            number <= is_last ? '0 : number + 1'b1;
            if (is_last) begin
                previous <= rc_data;
                place <= start_place;
                open <= has_start ? !start_ends : open && !is_eop[0];
                if (!has_start) place <= place;
            end
        end
        if (rst) begin
            part_valid <= 1'b0;
            open <= 1'b0;
            number <= '0;
        end
    end
endmodule

`default_nettype wire
