// SPDX-License-Identifier: MIT OR Apache-2.0
`default_nettype none

// Access to registered memory: protection (mpt), then translation page by page (mtt). Handles ranges
// of four clients in round-robin order; while one is translated, the next one is checked.
//
// Ports: request_* with `request0` to `request3`: requester, completer, responder, response engine.
// answer_valid has the bit of the client whose answer is in `answer` and `answer_fault`; pieces come in
// order, the last one with `last`; a fault (a code of mpt, 7 for a page that is not present) is one
// answer with `last`. An empty range gives an empty piece, whatever its key; `check_only` is answered
// with such a piece. entry_* is for the command engine; entry_done ends each of its requests:
//   1 to 5  OP_ENTRY, OP_UPDATE, OP_STORE, OP_REMOVE, OP_TABLE of mpt, with its fault and region
//   6       the table of mtt: `entry.base` (0: none), `entry.log`
//   7       drops what is cached of `entry.key` translation entries from `entry.base` on
// mpt_read_*, mpt_write_* and mtt_read_* are DMA of lines.
// Invariants: answers come in the order of requests; entry_* is taken only while no request is in
// progress; null regions and device memory are refused: this card has neither.
module memory_unit #(
    parameter int MPT_LOG_SETS = 9,
    parameter int MPT_WAYS = 4,
    parameter int MTT_LOG_SETS = 11,
    parameter int MTT_WAYS = 4
) (
    input  logic         clk,
    input  logic         rst,

    input  logic [3:0]   request_valid,
    output logic [3:0]   request_ready,
    input  card_pkg::memory_request_t request0,
    input  card_pkg::memory_request_t request1,
    input  card_pkg::memory_request_t request2,
    input  card_pkg::memory_request_t request3,
    output logic [3:0]   answer_valid,
    input  logic [3:0]   answer_ready,
    output card_pkg::piece_t answer,
    output logic [2:0]   answer_fault,

    input  logic         entry_valid,
    output logic         entry_ready,
    input  card_pkg::entry_t entry,
    output logic         entry_done,
    output logic [2:0]   entry_fault,
    output logic [511:0] entry_answer,

    output card_pkg::read_t mpt_read,
    input  logic         mpt_read_ready,
    input  card_pkg::line_t mpt_line,
    output card_pkg::write_t mpt_write,
    input  logic         mpt_write_ready,
    input  logic         mpt_write_error,
    output card_pkg::read_t mtt_read,
    input  logic         mtt_read_ready,
    input  card_pkg::line_t mtt_line,

    output logic         mpt_hit,
    output logic         mpt_miss,
    output logic         mtt_hit,
    output logic         mtt_miss,
    output logic         idle
);
    localparam logic [2:0] OP_CHECK = 3'd0, OP_PAGES_TABLE = 3'd6, OP_PAGES_DROP = 3'd7;
    localparam logic [2:0] FAULT_NONE = 3'd0, FAULT_KEY = 3'd1;

    typedef enum logic [2:0] {
        IDLE, CHECK, CHECKED, HAND_OVER, ENTRY, ENTRY_DONE, PAGES, PAGES_DONE
    } step_t;
    step_t step;

    // ------------------------------------------------------------------------------ whose turn it is
    logic [1:0] turn, chosen;
    always_comb begin
        chosen = turn;
        for (int i = 4; i > 0; i--)
            if (request_valid[turn + 2'(i)]) chosen = turn + 2'(i);
    end
    card_pkg::memory_request_t next, request;
    always_comb begin
        case (chosen)
            2'd0: next = request0;
            2'd1: next = request1;
            2'd2: next = request2;
            default: next = request3;
        endcase
    end
    logic takes_request;
    assign takes_request = step == IDLE && request_valid != '0 && !entry_valid;
    assign request_ready = takes_request ? 4'd1 << chosen : 4'd0;

    // ---------------------------------------------------------------------------------- protection
    logic         mpt_valid, mpt_ready, mpt_done;
    logic [2:0]   op, mpt_fault;
    logic [31:0]  key;
    logic [511:0] new_line, region;
    logic [63:0]  base;
    logic [4:0]   log_entries;
    assign mpt_valid = step == CHECK || step == ENTRY;
    mpt #(.LOG_SETS(MPT_LOG_SETS), .WAYS(MPT_WAYS)) protection (
        .clk, .rst, .s_valid(mpt_valid), .s_ready(mpt_ready), .s_op(step == CHECK ? OP_CHECK : op),
        .s_key(step == CHECK ? request.key : key), .s_pd({8'b0, request.pd}), .s_qpn({8'b0, request.qpn}),
        .s_rights({28'b0, request.rights}), .s_address(request.address), .s_length({32'b0, request.length}),
        .s_line(new_line), .s_base(base), .s_log_entries(log_entries), .m_valid(mpt_done), .m_fault(mpt_fault),
        .m_line(region), .read(mpt_read), .read_ready(mpt_read_ready), .line(mpt_line), .write(mpt_write),
        .write_ready(mpt_write_ready), .write_error(mpt_write_error), .hit(mpt_hit), .miss(mpt_miss)
    );
    logic is_elsewhere;                    // neither in host memory
    assign is_elsewhere = region[ferroce_pkg::MEMORY_ENTRY_WORD_NULL_LSB]
                       || region[ferroce_pkg::MEMORY_ENTRY_WORD_DEVICE_MEMORY_LSB];

    // --------------------------------------------------------------------------------- translation
    logic       walk_ready, table_ready, drop_ready;
    logic [2:0] fault;
    memory_walk #(.LOG_SETS(MTT_LOG_SETS), .WAYS(MTT_WAYS)) walk (
        .clk, .rst, .table_valid(step == PAGES && op == OP_PAGES_TABLE), .table_ready, .table_base(base),
        .table_log_entries(log_entries), .drop_valid(step == PAGES && op == OP_PAGES_DROP), .drop_ready,
        .drop_first(base[26:0]), .drop_count(key[26:0]), .s_valid(step == HAND_OVER), .s_ready(walk_ready),
        .s_client(turn), .s_fault(fault), .s_once(request.check_only || request.length == '0),
        .s_address(request.address), .s_length(request.length), .s_region(region), .m_valid(answer_valid),
        .m_ready(answer_ready), .m_piece(answer), .m_fault(answer_fault), .read(mtt_read),
        .read_ready(mtt_read_ready), .line(mtt_line), .hit(mtt_hit), .miss(mtt_miss)
    );

    assign entry_ready = step == IDLE && walk_ready;
    assign entry_done = (step == ENTRY_DONE && mpt_done) || (step == PAGES_DONE && table_ready);
    assign entry_fault = step == ENTRY_DONE ? mpt_fault : FAULT_NONE;
    assign entry_answer = region;
    assign idle = step == IDLE && walk_ready;

    always_ff @(posedge clk) begin
        case (step)
            IDLE: begin
                {op, key, new_line, base, log_entries} <= {entry.op, entry.key, entry.line, entry.base, entry.log};
                fault <= FAULT_NONE;
                if (entry_valid && entry_ready)
                    step <= entry.op == OP_PAGES_TABLE || entry.op == OP_PAGES_DROP ? PAGES : ENTRY;
                if (takes_request) begin
                    request <= next;
                    turn <= chosen;
                    step <= next.length == '0 ? HAND_OVER : CHECK;
                end
            end
            CHECK: if (mpt_ready) step <= CHECKED;
            CHECKED: if (mpt_done) begin
                fault <= mpt_fault == FAULT_NONE && is_elsewhere ? FAULT_KEY : mpt_fault;
                step <= HAND_OVER;
            end
            HAND_OVER: if (walk_ready) step <= IDLE;
            ENTRY: if (mpt_ready) step <= ENTRY_DONE;
            ENTRY_DONE: if (mpt_done) step <= IDLE;
            PAGES: if (op == OP_PAGES_TABLE ? table_ready : drop_ready) step <= PAGES_DONE;
            PAGES_DONE: if (table_ready) step <= IDLE;
            default: step <= IDLE;
        endcase
        if (rst) begin
            step <= IDLE;
            turn <= '0;
        end
    end

    always_ff @(posedge clk) begin
        if (!rst && entry_valid && entry_ready) assert (entry.op != OP_CHECK);
    end
endmodule

`default_nettype wire
