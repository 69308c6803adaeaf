// SPDX-License-Identifier: MIT OR Apache-2.0
`default_nettype none

// The command queue: fetches entries, checks and reads input mailboxes, lets command_engine's parts
// execute, writes output mailboxes and completions. One command at a time.
//
// Ports: base and size of the queue come from the registers. read_* and write_* are DMA of one line
// at a time. `start` pulses with opcode, argument and the input `mail`; `done` pulses with the
// outcome and the output `answer`, which hold until the next start. `wanted_in` and `wanted_out` are
// the bytes of the mailboxes of `opcode`; `known`: the command exists. `hang` stops the next command.
// Invariants: a command that fails writes no output; the completion is the last write; an entry that
// software owns is read once and skipped.
module command_queue #(
    parameter int MAIL_LINES = 5,
    parameter int ANSWER_LINES = 4
) (
    input  logic         clk,
    input  logic         rst,
    input  logic         enabled,
    input  logic         hang,
    input  logic [63:0]  ring_base,
    input  logic [3:0]   ring_log,
    input  logic [31:0]  posted,
    output logic [31:0]  completed,
    output logic         fatal,
    output logic         idle,

    output card_pkg::read_t read,
    input  logic         read_ready,
    input  card_pkg::line_t line,
    output card_pkg::write_t write,
    input  logic         write_ready,
    input  logic         write_error,

    output logic [15:0]  opcode,
    input  logic         known,
    input  logic [8:0]   wanted_in,
    input  logic [8:0]   wanted_out,
    output logic         start,
    output logic [63:0]  argument,
    output logic [512*MAIL_LINES-1:0]  mail,
    input  logic         done,
    input  card_pkg::outcome_t outcome,
    input  logic [512*ANSWER_LINES-1:0] answer,

    output logic         count_command,
    output logic         count_error
);
    localparam logic [63:0] OUTCOME_STROBE = {16'hffff, 48'b0};   // result and completion
    localparam logic [63:0] HALF_STROBE = 64'h0000_0000_ffff_ffff;

    typedef enum logic [3:0] {
        IDLE, FETCH, FETCHED, DECODE, READ, COMES, START, RUN, WRITE, COMPLETE, PASS
    } step_t;
    step_t       step;
    ferroce_pkg::command_entry_t entry;    // its reserved fields
    wire unused_entry = &{1'b0, entry};
    logic [7:0]  status;
    logic [31:0] syndrome;
    logic [63:0] result;
    logic [2:0]  at, last;                 // line of a mailbox
    assign opcode = entry.opcode;
    assign argument = entry.argument;

    // Returns the last line of a mailbox with this number of bytes.
    function automatic [2:0] last_line(input [8:0] bytes);
        last_line = 3'((bytes - 9'd1) >> 6);
    endfunction

    logic is_good_input, is_good_output;
    assign is_good_input = entry.input_length == 32'(wanted_in) && (wanted_in == '0 || entry.input_iova[5:0] == '0);
    assign is_good_output = entry.output_length >= 32'(wanted_out)
                         && (wanted_out == '0 || entry.output_iova[5:0] == '0);

    // ------------------------------------------------------------------------------------------- DMA
    logic [31:0] place;
    logic [63:0] entry_iova;
    ferroce_pkg::command_completion_t completion;
    assign place = completed & ~(32'hffff_ffff << ring_log);
    assign entry_iova = ring_base + {26'b0, place, 6'b0};
    assign read.valid = step == FETCH || step == READ;
    assign read.index = '0;
    assign read.iova = step == FETCH ? entry_iova : entry.input_iova + {55'b0, at, 6'b0};
    assign write.valid = step == WRITE || step == COMPLETE;
    always_comb begin
        completion = '0;
        completion.status = status;
        completion.syndrome = syndrome;
        write.iova = entry.output_iova + {55'b0, at, 6'b0};
        write.line = answer[{at[1:0], 9'b0} +: 512];
        write.strobe = wanted_out[5] ? HALF_STROBE : '1;   // outputs are whole lines, or half a one
        if (step == COMPLETE) begin
            write.iova = entry_iova;
            write.line = {completion, result, 384'b0};
            write.strobe = OUTCOME_STROBE;
        end
    end

    // -------------------------------------------------------------------------------- the mailbox
    for (genvar n = 0; n < MAIL_LINES; n++) begin : g_line
        always_ff @(posedge clk) begin
            if (step == COMES && line.valid && at == 3'(n)) mail[512*n +: 512] <= line.data;
        end
    end

    logic completes;
    assign completes = step == COMPLETE && write_ready && !write_error;
    assign start = step == START;
    assign idle = (step == IDLE && (hang || !enabled || completed == posted));
    assign count_command = completes;
    assign count_error = (completes && status != ferroce_pkg::COMMAND_STATUS_SUCCESS) || step == PASS;

    always_ff @(posedge clk) begin
        fatal <= 1'b0;
        if (step == COMES && line.valid) at <= at + 1'b1;
        if (step == WRITE && write_ready) at <= at + 1'b1;
        if (completes || step == PASS) completed <= completed + 1'b1;
        case (step)
            IDLE: if (enabled && !hang && completed != posted) step <= FETCH;
            FETCH: if (read_ready) step <= FETCHED;
            FETCHED: if (line.valid) begin
                entry <= line.data;
                fatal <= line.error;
                step <= line.error ? IDLE : line.data[511] ? DECODE : PASS;
            end
            DECODE: begin
                at <= '0;
                last <= last_line(wanted_in);
                status <= ferroce_pkg::COMMAND_STATUS_SUCCESS;
                syndrome <= '0;
                result <= '0;
                step <= wanted_in != '0 ? READ : START;
                if (!known) begin
                    status <= ferroce_pkg::COMMAND_STATUS_BAD_OPCODE;
                    step <= COMPLETE;
                end else if (!is_good_input || !is_good_output) begin
                    status <= ferroce_pkg::COMMAND_STATUS_BAD_MAILBOX;
                    step <= COMPLETE;
                end
            end
            READ: if (read_ready) step <= COMES;
            COMES: if (line.valid) begin
                step <= at == last ? START : READ;
                if (line.error) begin
                    status <= ferroce_pkg::COMMAND_STATUS_DMA_ERROR;
                    step <= COMPLETE;
                end
            end
            START: step <= RUN;
            RUN: if (done) begin
                at <= '0;
                last <= last_line(wanted_out);
                status <= outcome.status;
                syndrome <= outcome.syndrome;
                result <= outcome.status == ferroce_pkg::COMMAND_STATUS_SUCCESS ? outcome.result : '0;
                step <= wanted_out != '0 && outcome.status == ferroce_pkg::COMMAND_STATUS_SUCCESS ? WRITE : COMPLETE;
            end
            WRITE: if (write_ready) begin
                step <= at == last ? COMPLETE : WRITE;
                if (write_error) begin
                    status <= ferroce_pkg::COMMAND_STATUS_DMA_ERROR;
                    step <= COMPLETE;
                end
            end
            COMPLETE: if (write_ready) begin
                fatal <= write_error;
                step <= IDLE;
            end
            default: step <= IDLE;
        endcase
        if (rst) begin
            step <= IDLE;
            completed <= '0;
            fatal <= 1'b0;
        end
    end

    always_ff @(posedge clk) begin
        if (!rst && line.valid) assert (line.index == '0);   // one read at a time
        if (!rst && step == WRITE) assert (!at[2]);
        if (!rst && done) assert (step == RUN);
    end
endmodule

`default_nettype wire
