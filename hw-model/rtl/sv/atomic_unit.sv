// SPDX-License-Identifier: MIT OR Apache-2.0
`default_nettype none

// Executes an atomic in host memory: reads eight aligned bytes, and writes the new value (IBTA vol 1, 9.4.5).
//
// Ports: `start` holds until `done`, with the address `iova`, the operands and `is_swap` (compare and swap, else fetch
// and add). `done` ends it: `original` is the value before it, `fault`: memory could not be accessed. read_*
// and line_* are one DMA read at a time, write_* one DMA write; `write_error` comes with write_ready.
// Invariant: the next atomic reads after the write of this one was taken, so that atomics of all QPs are atomic to
// each other. A compare that fails writes the value that it has read.
module atomic_unit (
    input  logic               clk,
    input  logic               rst,

    input  logic               start,
    input  logic [63:0]        iova,
    input  logic               is_swap,
    input  logic [63:0]        swap_add,
    input  logic [63:0]        compare,
    output logic               done,
    output logic               fault,
    output logic [63:0]        original,

    output card_pkg::read_t    read,
    input  logic               read_ready,
    input  card_pkg::line_t    line,
    output card_pkg::write_t   write,
    input  logic               write_ready,
    input  logic               write_error
);
    wire unused_line = &{1'b0, line};
    typedef enum logic [2:0] {IDLE, READ, WAIT, COMPUTE, WRITE, DONE} step_t;
    step_t step;

    logic [63:0] changed, value;
    always_comb begin
        if (!is_swap) changed = original + swap_add;
        else changed = original == compare ? swap_add : original;
    end

    assign done = step == DONE;
    assign read.valid = step == READ;
    assign read.iova = {iova[63:6], 6'b0};
    assign read.index = '0;
    always_comb begin
        write.valid = step == WRITE;
        write.iova = {iova[63:6], 6'b0};
        write.line = {8{value}};
        write.strobe = '0;
        write.strobe[{iova[5:3], 3'b000} +: 8] = '1;
    end

    always_ff @(posedge clk) begin
        case (step)
            IDLE: begin
                fault <= 1'b0;
                if (start) step <= READ;
            end
            READ: if (read_ready) step <= WAIT;
            WAIT: if (line.valid) begin
                original <= line.data[{iova[5:3], 6'b0} +: 64];
                fault <= line.error;
                step <= line.error ? DONE : COMPUTE;
            end
            COMPUTE: begin
                value <= changed;
                step <= WRITE;
            end
            WRITE: if (write_ready) begin
                fault <= write_error;
                step <= DONE;
            end
            default: step <= IDLE;
        endcase
        if (rst) step <= IDLE;
    end

    always_ff @(posedge clk) begin
        if (!rst && start) assert (iova[2:0] == 3'd0);
        if (!rst && line.valid) assert (step == WAIT);
    end
endmodule

`default_nettype wire
