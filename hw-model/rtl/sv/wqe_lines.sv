// SPDX-License-Identifier: MIT OR Apache-2.0
`default_nettype none

// Lines of a send queue's ring on the chip: the lines of the WQE that is being decoded, and the
// following ones, which are read ahead.
//
// Ports: `begin_valid` gives the first block of a WQE, and the ring of the QP; lines of an earlier
// window of the same QP stay. The first `wanted` blocks of the WQE are always read, and others while
// `ahead_valid` shows that the blocks before `ahead_block` of `ahead_qp` belong to the card.
// `arrived`: all wanted blocks have come; `failed`: one of them could not be read. `looked_up` is
// block `look` of the WQE one cycle later. `forget`: the ring has changed. read_* is DMA:
// `read.index` names the line.
// `idle`: no line is outstanding.
// Invariants: no line is read ahead that software may still write; a slot is not reused before its
// line has come.
module wqe_lines (
    input  logic         clk,
    input  logic         rst,
    output logic         idle,

    input  logic         begin_valid,
    input  logic [7:0]   begin_qp,
    input  logic [31:0]  begin_block,
    input  logic [63:0]  begin_base,
    input  logic [4:0]   begin_log_blocks,
    input  logic         forget,
    input  logic         ahead_valid,
    input  logic [7:0]   ahead_qp,
    input  logic [31:0]  ahead_block,

    input  logic [3:0]   wanted,
    output logic         arrived,
    output logic         failed,
    input  logic [3:0]   look,
    output logic [511:0] looked_up,

    output card_pkg::read_t read,
    input  logic         read_ready,
    input  card_pkg::line_t line
);
    localparam int LINES = 16;             // a WQE has ten at most

    // ---------------------------------------------------------------------------------- the window
    logic        is_valid;                 // blocks from `first` to `asked` were requested
    logic [7:0]  qp;
    logic [31:0] first, asked;
    logic [31:0] held, left, ring_block;
    logic [63:0] base;
    logic [4:0]  log_blocks;
    logic        stays;                    // the new WQE is in the window
    assign held = asked - first;
    assign stays = is_valid && begin_qp == qp && begin_block - first <= held;

    // --------------------------------------------------------------------------------- what is read
    logic [LINES-1:0] flying;              // a line is outstanding for the slot,
    logic [LINES-1:0] stale;               // which an earlier window has requested
    logic [LINES-1:0] there, errors;
    logic             is_wanted, is_ahead, asks;
    logic [3:0]       slot, line_slot;
    assign line_slot = line.index[3:0];
    assign left = ahead_block - asked;
    assign is_wanted = held < {28'b0, wanted};
    assign is_ahead = ahead_valid && ahead_qp == qp && left != '0 && !left[31] && held < LINES;
    assign slot = asked[3:0];
    assign asks = is_valid && (is_wanted || is_ahead) && !flying[slot] && (!read.valid || read_ready);
    assign ring_block = asked & ((32'd1 << log_blocks) - 32'd1);
    assign idle = flying == '0;

    always_ff @(posedge clk) begin
        if (line.valid) begin
            flying[line_slot] <= 1'b0;
            stale[line_slot] <= 1'b0;
            there[line_slot] <= !stale[line_slot];
            errors[line_slot] <= line.error;
        end
        if (read_ready) read.valid <= 1'b0;
        if (asks) begin
            read.valid <= 1'b1;
            read.index <= {4'b0, slot};
            read.iova <= base + {26'b0, ring_block, 6'b0};
            flying[slot] <= 1'b1;
            there[slot] <= 1'b0;
            asked <= asked + 1'b1;
        end
        if (begin_valid) begin
            first <= begin_block;
            qp <= begin_qp;
            base <= begin_base;
            log_blocks <= begin_log_blocks;
            is_valid <= 1'b1;
            if (!stays) begin
                asked <= begin_block;
                there <= '0;
                stale <= flying;
                if (line.valid) stale[line_slot] <= 1'b0;
                if (asks) stale[slot] <= 1'b1;
            end
        end
        if (forget) is_valid <= 1'b0;
        if (rst) begin
            {is_valid, read.valid} <= '0;
            {flying, stale, there} <= '0;
        end
    end

    // ------------------------------------------------------------------------------------- the lines
    logic [LINES-1:0] of_wqe, missing, wrong;
    logic [2*LINES-1:0] missing_twice, wrong_twice;
    wire unused_missing_twice = &{1'b0, missing_twice, wrong_twice};
    assign missing_twice = {~there, ~there} >> first[3:0];
    assign wrong_twice = {errors, errors} >> first[3:0];
    assign missing = missing_twice[LINES-1:0];
    assign wrong = wrong_twice[LINES-1:0];
    assign of_wqe = (16'd1 << wanted) - 16'd1;
    assign arrived = !is_wanted && (missing & of_wqe) == '0;
    assign failed = (wrong & of_wqe) != '0;

    logic [511:0] lines [LINES];
    logic [3:0]   look_slot;
    assign look_slot = first[3:0] + look;
    always_ff @(posedge clk) begin
        if (line.valid) lines[line_slot] <= line.data;
    end
    always_ff @(posedge clk) looked_up <= lines[look_slot];

    always_ff @(posedge clk) begin
        if (!rst && line.valid) assert (line.index < 8'(LINES) && flying[line_slot]);
        if (!rst && !begin_valid && is_valid) assert (held <= LINES);
    end
endmodule

`default_nettype wire
