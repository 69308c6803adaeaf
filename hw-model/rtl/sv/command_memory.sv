// SPDX-License-Identifier: MIT OR Apache-2.0
`default_nettype none

// Commands on memory regions: CREATE_MR, QUERY_MR, DESTROY_MR, MODIFY_MR.
//
// Ports: start .. answer as in command_queue. entry_* is the control side of memory_unit: entry_ready
// takes an operation, entry_done ends it.
// Invariants: a region's pages are inside the memory translation table; the cache holds none of them
// after a region was created or destroyed; index 0 is never allocated, so that no key is zero.
module command_memory (
    input  logic         clk,
    input  logic         rst,
    input  logic         start,
    input  logic [15:0]  opcode,
    input  logic [63:0]  argument,
    input  logic [511:0] mail,
    output logic         done,
    output card_pkg::outcome_t outcome,
    output logic [511:0] answer,
    input  logic         has_tables,
    input  logic [3:0]   log_mrs,
    input  logic [4:0]   log_mtts,

    output logic         entry_valid,
    input  logic         entry_ready,
    output logic [2:0]   entry_op,
    output logic [31:0]  entry_key,
    output logic [511:0] entry_line,
    output logic [63:0]  entry_base,
    input  logic         entry_done,
    input  logic [2:0]   entry_fault,
    input  logic [511:0] entry_answer
);
    logic [7:0]  status;
    logic [31:0] syndrome;
    logic [63:0] result;
    assign outcome = {status, syndrome, result};
    localparam int BITS = card_pkg::LOG_MRS;
    localparam logic [2:0] OP_ENTRY = 3'd1, OP_STORE = 3'd3, OP_REMOVE = 3'd4, OP_PAGES_DROP = 3'd7;
    localparam logic [2:0] FAULT_NONE = 3'd0, FAULT_DMA = 3'd6;   // of mpt

    typedef enum logic [3:0] {
        IDLE, NUMBER, LOOK, LOOKED, SUM, PAGES, JUDGE, CHANGE, CHANGED, DROP_OLD, OLD_DROPPED, DROP_NEW, NEW_DROPPED, ANSWER
    } step_t;
    step_t step;

    logic is_create, is_query, is_destroy, is_key;
    assign is_create = opcode == ferroce_pkg::COMMAND_OPCODE_CREATE_MR;
    assign is_query = opcode == ferroce_pkg::COMMAND_OPCODE_QUERY_MR;
    assign is_destroy = opcode == ferroce_pkg::COMMAND_OPCODE_DESTROY_MR;
    assign is_key = argument[63:32] == '0;
    ferroce_pkg::memory_entry_t asked, fresh, present;
    assign asked = mail;

    // --------------------------------------------------------------------------------------- numbers
    logic            is_numbered, is_taken, is_given, succeeds;
    logic [7:0]      number_status;
    ferroce_pkg::new_number_t choice;      // its reserved bits
    wire unused_choice = &{1'b0, choice};
    assign choice = argument;
    logic [BITS-1:0] free_number;
    logic [31:0]     key;
    assign succeeds = step == CHANGED && entry_done && entry_fault == FAULT_NONE;
    assign is_taken = succeeds && is_create;
    assign is_given = succeeds && is_destroy;
    number_table #(.BITS(BITS), .FIRST(1)) numbers (
        .clk, .rst, .capacity(has_tables ? (BITS + 1)'(1) << log_mrs : '0), .ask(start && is_create),
        .chosen(choice.chosen), .wanted(choice.number), .answered(is_numbered), .status(number_status),
        .number(free_number), .take(is_taken), .give_valid(is_given), .give_number(argument[8 +: BITS])
    );
    assign key = is_create ? {{(24 - BITS){1'b0}}, free_number, asked.key[7:0]} : {argument[31:8], asked.key[7:0]};
    always_comb begin
        fresh = asked;
        fresh.key = key;
        fresh.word.valid = 1'b1;
        fresh.word.window_type_2 = 1'b0;
        fresh.word.bound = 1'b0;
        fresh.region_key = '0;
        fresh.qpn = '0;
        fresh.windows = '0;
    end

    // ------------------------------------------------------------- the pages of a region, in two steps
    function automatic [63:0] whole_pages(input [63:0] bytes, input [7:0] log_page_size);
        case (log_page_size)
            8'd21: whole_pages = (bytes + 64'h1f_ffff) >> 21;
            8'd30: whole_pages = (bytes + 64'h3fff_ffff) >> 30;
            default: whole_pages = (bytes + 64'hfff) >> 12;
        endcase
    endfunction
    logic [64:0] end_address;              // bit 64: beyond the last address
    wire unused_end_address = &{1'b0, end_address};
    logic [64:0] in_pages;
    logic [63:0] new_pages, old_pages, old_bytes;
    logic [64:0] behind;                   // the last page
    always_ff @(posedge clk) begin
        end_address <= {1'b0, asked.start} + {1'b0, asked.length};
        in_pages <= {1'b0, asked.first_page_offset} + {1'b0, asked.length};
        old_bytes <= present.first_page_offset + present.length;
        new_pages <= whole_pages(in_pages[63:0], asked.word.log_page_size);
        old_pages <= whole_pages(old_bytes, present.word.log_page_size);
    end
    assign behind = {1'b0, asked.translation} + {1'b0, new_pages};

    // ------------------------------------------------------------------------------------ the checks
    logic [7:0]  judged;
    logic [31:0] judged_at;
    logic        is_log, is_offset, is_one_kind;
    assign is_one_kind = !(asked.word.direct && asked.word.null_)
                      && !(asked.word.device_memory && (asked.word.direct || asked.word.null_));
    assign is_log = asked.word.log_page_size == 8'd12 || asked.word.log_page_size == 8'd21
                 || asked.word.log_page_size == 8'd30;
    assign is_offset = !in_pages[64] && asked.first_page_offset >> asked.word.log_page_size[4:0] == '0;
    always_comb begin
        judged = ferroce_pkg::COMMAND_STATUS_BAD_PARAMETER;
        judged_at = '0;
        if (asked.word.window || asked.word.null_) judged = ferroce_pkg::COMMAND_STATUS_NOT_SUPPORTED;
        else if (!is_one_kind) judged_at = 32'(ferroce_pkg::MEMORY_ENTRY_WORD_OFFSET);
        else if (end_address[64]) judged_at = 32'(ferroce_pkg::MEMORY_ENTRY_LENGTH_OFFSET);
        // A region that peers may write must be writable at all (IBTA vol 1, 10.6.3.1).
        else if ((asked.access.remote_write || asked.access.remote_atomic) && !asked.access.local_write)
            judged_at = 32'(ferroce_pkg::MEMORY_ENTRY_ACCESS_OFFSET);
        else if (asked.word.device_memory) judged_at = 32'(ferroce_pkg::MEMORY_ENTRY_TRANSLATION_OFFSET);
        else if (asked.word.direct) judged = ferroce_pkg::COMMAND_STATUS_SUCCESS;
        else if (!is_log) judged_at = 32'(ferroce_pkg::MEMORY_ENTRY_WORD_OFFSET);
        else if (!is_offset) judged_at = 32'(ferroce_pkg::MEMORY_ENTRY_FIRST_PAGE_OFFSET_OFFSET);
        else if (behind > 65'd1 << log_mtts) judged_at = 32'(ferroce_pkg::MEMORY_ENTRY_TRANSLATION_OFFSET);
        else judged = ferroce_pkg::COMMAND_STATUS_SUCCESS;
        if (judged == ferroce_pkg::COMMAND_STATUS_SUCCESS && is_create) judged = number_status;
    end

    // -------------------------------------------------------------------------------- to memory_unit
    logic drops_old, drops_new;
    assign drops_old = !is_create && !present.word.direct && old_pages != '0;
    assign drops_new = !is_destroy && !asked.word.direct && new_pages != '0;
    assign entry_valid = step == LOOK || step == CHANGE || (step == DROP_OLD && drops_old)
                      || (step == DROP_NEW && drops_new);
    assign entry_line = fresh;
    always_comb begin
        entry_op = OP_PAGES_DROP;
        entry_key = new_pages[31:0];
        entry_base = asked.translation;
        case (step)
            LOOK: begin
                entry_op = OP_ENTRY;
                entry_key = argument[31:0];
            end
            CHANGE: begin
                entry_op = is_destroy ? OP_REMOVE : OP_STORE;
                entry_key = is_destroy ? argument[31:0] : key;
            end
            DROP_OLD: begin
                entry_key = old_pages[31:0];
                entry_base = present.translation;
            end
            default: ;
        endcase
    end

    // Converts the fault of an operation to the status of the command.
    function automatic [7:0] status_of(input [2:0] fault);
        status_of = fault == FAULT_NONE ? ferroce_pkg::COMMAND_STATUS_SUCCESS
                  : fault == FAULT_DMA ? ferroce_pkg::COMMAND_STATUS_DMA_ERROR : ferroce_pkg::COMMAND_STATUS_NO_OBJECT;
    endfunction

    assign done = step == ANSWER;
    assign answer = present;
    always_ff @(posedge clk) begin
        case (step)
            IDLE: begin
                status <= ferroce_pkg::COMMAND_STATUS_SUCCESS;
                syndrome <= '0;
                result <= '0;
                if (start) step <= is_create ? NUMBER : LOOK;
                if (start && !is_create && !is_key) begin
                    status <= ferroce_pkg::COMMAND_STATUS_NO_OBJECT;
                    step <= ANSWER;
                end
            end
            NUMBER: if (is_numbered) step <= SUM;
            LOOK: if (entry_ready) step <= LOOKED;
            LOOKED: if (entry_done) begin
                present <= entry_answer;
                status <= status_of(entry_fault);
                step <= entry_fault != FAULT_NONE || is_query ? ANSWER : SUM;
                if (entry_fault == FAULT_NONE && entry_answer[8*ferroce_pkg::MEMORY_ENTRY_KEY_OFFSET +: 32] != argument[31:0])
                begin
                    status <= ferroce_pkg::COMMAND_STATUS_NO_OBJECT;
                    step <= ANSWER;
                end
            end
            SUM: step <= PAGES;
            PAGES: step <= JUDGE;
            JUDGE: begin
                step <= CHANGE;
                if (!is_destroy && judged != ferroce_pkg::COMMAND_STATUS_SUCCESS) begin
                    status <= judged;
                    syndrome <= judged_at;
                    step <= ANSWER;
                end
            end
            CHANGE: if (entry_ready) step <= CHANGED;
            CHANGED: if (entry_done) begin
                status <= status_of(entry_fault);
                result <= is_destroy ? '0 : 64'(key);
                step <= entry_fault == FAULT_NONE ? DROP_OLD : ANSWER;
            end
            DROP_OLD: if (!drops_old) step <= DROP_NEW;
                      else if (entry_ready) step <= OLD_DROPPED;
            OLD_DROPPED: if (entry_done) step <= DROP_NEW;
            DROP_NEW: if (!drops_new) step <= ANSWER;
                      else if (entry_ready) step <= NEW_DROPPED;
            NEW_DROPPED: if (entry_done) step <= ANSWER;
            default: step <= IDLE;
        endcase
        if (rst) step <= IDLE;
    end
endmodule

`default_nettype wire
