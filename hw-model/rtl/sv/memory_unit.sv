// SPDX-License-Identifier: MIT OR Apache-2.0
`default_nettype none

// Access to registered memory: protection (mpt), then translation page by page (mtt). Takes ranges
// of four clients in round-robin order. memory_pipe handles those whose region and page are cached, one per
// cycle; any other range takes the long way alone, and those after it begin anew.
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

    typedef enum logic [3:0] {
        IDLE, CHECK, CHECKED, HAND_OVER, WALKS, ENTRY, ENTRY_DONE, PAGES, PAGES_DONE
    } step_t;
    step_t step;

    // ------------------------------------------------------------------------------ whose turn it is
    logic [1:0] turn, chosen;
    always_comb begin
        chosen = turn;
        for (int i = 4; i > 0; i--)
            if (request_valid[turn + 2'(i)]) chosen = turn + 2'(i);
    end
    card_pkg::memory_request_t incoming;
    always_comb begin
        case (chosen)
            2'd0: incoming = request0;
            2'd1: incoming = request1;
            2'd2: incoming = request2;
            default: incoming = request3;
        endcase
    end

    // ------------------------------------------------------------- requests until their last answer
    // Those from `head` to `issued` are in the pipe, or the one at `head` is on the long way. `done` bytes
    // of the one at `head` have been answered.
    localparam int LOG_REQUESTS = 2;
    localparam int REQUEST_BITS = $bits(incoming);
    logic [REQUEST_BITS-1:0]   requests [1 << LOG_REQUESTS];
    logic [1:0]                owners [1 << LOG_REQUESTS];
    logic [LOG_REQUESTS:0]     tail, head, issued;
    logic [31:0]               done;
    logic                      takes_request, is_full, is_long, issues;
    card_pkg::memory_request_t first, queued, issue;
    logic [1:0]                first_owner, issue_owner;
    assign is_full = tail == {!head[LOG_REQUESTS], head[LOG_REQUESTS-1:0]};
    assign takes_request = !is_full && request_valid != '0 && !entry_valid && step != PAGES && step != PAGES_DONE
                        && step != ENTRY && step != ENTRY_DONE;
    assign request_ready = takes_request ? 4'd1 << chosen : 4'd0;
    assign queued = requests[issued[LOG_REQUESTS-1:0]];
    assign first_owner = owners[head[LOG_REQUESTS-1:0]];
    always_comb begin
        first = requests[head[LOG_REQUESTS-1:0]];
        first.address = first.address + {32'b0, done};
        first.length = first.length - done;
    end
    always_comb begin
        issue = issued == head ? first : queued;
        issue_owner = owners[issued[LOG_REQUESTS-1:0]];
        if (issued == tail) begin
            issue = incoming;
            issue_owner = chosen;
        end
    end
    always_ff @(posedge clk) begin
        if (takes_request) requests[tail[LOG_REQUESTS-1:0]] <= incoming;
    end
    always_ff @(posedge clk) begin
        if (takes_request) owners[tail[LOG_REQUESTS-1:0]] <= chosen;
    end

    // ---------------------------------------------------------------------------- the short way
    logic                move, flush, pipe_idle, pipe_valid, pipe_hit, pipe_rest, counts_page, answers, falls_back;
    logic [1:0]          pipe_client;
    logic [23:0]         entry_index;
    logic [22:0]         page_index;
    logic [24:0]         entries;
    logic [26:0]         pages;
    logic                entry_hit, page_hit;
    logic [511:0]        entry_line, page_line;
    card_pkg::piece_t    pipe_piece;
    memory_pipe pipe (
        .clk, .rst, .move, .flush, .s_valid(issues), .s_client(issue_owner), .s_request(issue),
        .s_rest(issued == head && done != '0), .entries, .entry_index, .entry_hit, .entry_line, .pages, .page_index,
        .page_hit, .page_line, .m_valid(pipe_valid), .m_client(pipe_client), .m_hit(pipe_hit), .m_rest(pipe_rest),
        .m_counts_page(counts_page), .m_piece(pipe_piece), .idle(pipe_idle)
    );
    // A range of several pieces, and one that takes the long way, make the later ones begin anew.
    assign is_long = step != IDLE;
    assign answers = pipe_valid && pipe_hit && answer_ready[pipe_client];
    assign falls_back = pipe_valid && !pipe_hit;
    assign move = !pipe_valid || answers;
    assign flush = falls_back || (answers && !pipe_piece.last);
    assign issues = move && !flush && !is_long && (issued != tail || takes_request);

    logic             ends_long;           // the last answer of the long way is taken
    logic [3:0]       walk_valid;
    card_pkg::piece_t walk_piece;
    assign ends_long = step == WALKS && (walk_valid & answer_ready) != '0 && walk_piece.last;
    always_ff @(posedge clk) begin
        if (takes_request) begin
            tail <= tail + 1'b1;
            turn <= chosen;
        end
        if (issues) issued <= issued + 1'b1;
        if (flush) issued <= falls_back ? head + 1'b1 : head;
        if (answers) done <= pipe_piece.last ? '0 : done + {19'b0, pipe_piece.bytes};
        if (ends_long) done <= '0;
        if (ends_long || (answers && pipe_piece.last)) head <= head + 1'b1;
        if (rst) begin
            {tail, head, issued} <= '0;
            done <= '0;
            turn <= '0;
        end
    end

    // ---------------------------------------------------------------------------------- protection
    logic         mpt_valid, mpt_ready, mpt_done, long_mpt_hit, long_mpt_miss;
    logic [2:0]   op, mpt_fault;
    logic [31:0]  key;
    logic [511:0] new_line, region;
    logic [63:0]  base;
    logic [4:0]   log_entries;
    card_pkg::memory_request_t request;    // on the long way
    assign mpt_valid = step == CHECK || step == ENTRY;
    mpt #(.LOG_SETS(MPT_LOG_SETS), .WAYS(MPT_WAYS)) protection (
        .clk, .rst, .s_valid(mpt_valid), .s_ready(mpt_ready), .s_op(step == CHECK ? OP_CHECK : op),
        .s_key(step == CHECK ? request.key : key), .s_pd({8'b0, request.pd}), .s_qpn({8'b0, request.qpn}),
        .s_rights({28'b0, request.rights}), .s_address(request.address), .s_length({32'b0, request.length}),
        .s_line(new_line), .s_base(base), .s_log_entries(log_entries), .look_move(move), .look_index(entry_index),
        .look_hit(entry_hit), .look_line(entry_line), .look_entries(entries), .m_valid(mpt_done),
        .m_fault(mpt_fault), .m_line(region), .read(mpt_read), .read_ready(mpt_read_ready), .line(mpt_line),
        .write(mpt_write), .write_ready(mpt_write_ready), .write_error(mpt_write_error), .hit(long_mpt_hit),
        .miss(long_mpt_miss)
    );
    logic is_elsewhere;                    // neither in host memory
    assign is_elsewhere = region[ferroce_pkg::MEMORY_ENTRY_WORD_NULL_LSB]
                       || region[ferroce_pkg::MEMORY_ENTRY_WORD_DEVICE_MEMORY_LSB];

    // --------------------------------------------------------------------------------- translation
    logic             walk_ready, table_ready, drop_ready, long_mtt_hit;
    logic [2:0]       fault, walk_fault;
    memory_walk #(.LOG_SETS(MTT_LOG_SETS), .WAYS(MTT_WAYS)) walk (
        .clk, .rst, .table_valid(step == PAGES && op == OP_PAGES_TABLE), .table_ready, .table_base(base),
        .table_log_entries(log_entries), .drop_valid(step == PAGES && op == OP_PAGES_DROP), .drop_ready,
        .drop_first(base[26:0]), .drop_count(key[26:0]), .s_valid(step == HAND_OVER), .s_ready(walk_ready),
        .s_client(first_owner), .s_fault(fault), .s_once(request.check_only || request.length == '0),
        .s_address(request.address), .s_length(request.length), .s_region(region), .look_move(move),
        .look_index(page_index), .look_hit(page_hit), .look_line(page_line), .look_entries(pages),
        .m_valid(walk_valid), .m_ready(answer_ready), .m_piece(walk_piece), .m_fault(walk_fault), .read(mtt_read),
        .read_ready(mtt_read_ready), .line(mtt_line), .hit(long_mtt_hit), .miss(mtt_miss)
    );
    assign answer_valid = is_long ? walk_valid : pipe_valid && pipe_hit ? 4'd1 << pipe_client : 4'd0;
    assign answer = is_long ? walk_piece : pipe_piece;
    assign answer_fault = is_long ? walk_fault : FAULT_NONE;
    // The rest of a range was counted in mpt with its beginning.
    assign mpt_hit = (long_mpt_hit && done == '0) || (answers && !pipe_rest);
    assign mpt_miss = long_mpt_miss && done == '0;
    assign mtt_hit = long_mtt_hit || (answers && counts_page);

    logic is_empty;
    assign is_empty = head == tail && pipe_idle;
    assign entry_ready = step == IDLE && is_empty && walk_ready;
    assign entry_done = (step == ENTRY_DONE && mpt_done) || (step == PAGES_DONE && table_ready);
    assign entry_fault = step == ENTRY_DONE ? mpt_fault : FAULT_NONE;
    assign entry_answer = region;
    assign idle = step == IDLE && is_empty && walk_ready;

    always_ff @(posedge clk) begin
        case (step)
            IDLE: begin
                {op, key, new_line, base, log_entries} <= {entry.op, entry.key, entry.line, entry.base, entry.log};
                fault <= FAULT_NONE;
                if (entry_valid && entry_ready)
                    step <= entry.op == OP_PAGES_TABLE || entry.op == OP_PAGES_DROP ? PAGES : ENTRY;
                if (falls_back) begin
                    request <= first;
                    step <= first.length == '0 ? HAND_OVER : CHECK;
                end
            end
            CHECK: if (mpt_ready) step <= CHECKED;
            CHECKED: if (mpt_done) begin
                fault <= mpt_fault == FAULT_NONE && is_elsewhere ? FAULT_KEY : mpt_fault;
                step <= HAND_OVER;
            end
            HAND_OVER: if (walk_ready) step <= WALKS;
            WALKS: if (ends_long) step <= IDLE;
            ENTRY: if (mpt_ready) step <= ENTRY_DONE;
            ENTRY_DONE: if (mpt_done) step <= IDLE;
            PAGES: if (op == OP_PAGES_TABLE ? table_ready : drop_ready) step <= PAGES_DONE;
            PAGES_DONE: if (table_ready) step <= IDLE;
            default: step <= IDLE;
        endcase
        if (rst) step <= IDLE;
    end

    always_ff @(posedge clk) begin
        if (!rst && pipe_valid) assert (!is_long && head != issued && pipe_client == first_owner);
        if (!rst && (long_mpt_hit || long_mtt_hit)) assert (!answers);
        if (!rst && entry_valid && entry_ready) assert (entry.op != OP_CHECK);
    end
endmodule

`default_nettype wire
