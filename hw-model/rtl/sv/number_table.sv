// SPDX-License-Identifier: MIT OR Apache-2.0
`default_nettype none

// Allocates the numbers FIRST to `capacity` - 1 of a context table. Either software chooses a number,
// or the card uses the next free one after the last allocated number, so that a late access to an old
// object finds none for as long as possible.
//
// Ports: `ask` pulses; `chosen` and `wanted` hold until `answered` pulses, and `status` and `number` from then
// until the next `ask`: SUCCESS, BUSY (`wanted` is taken) or NO_RESOURCES. `take` takes that number, give_*
// gives one back.
// Invariants: no number is allocated again before it was freed; a search ends after 2^BITS entries.
// After a reset the table is cleared, and an `ask` waits for that.
module number_table #(
    parameter int BITS = 8,
    parameter int FIRST = 0
) (
    input  logic            clk,
    input  logic            rst,
    input  logic [BITS:0]   capacity,
    input  logic            ask,
    input  logic            chosen,
    input  logic [31:0]     wanted,
    output logic            answered,
    output logic [7:0]      status,
    output logic [BITS-1:0] number,
    input  logic            take,
    input  logic            give_valid,
    input  logic [BITS-1:0] give_number
);
    typedef enum logic [2:0] {CLEAR, IDLE, READ, LOOK, ANSWER} step_t;
    step_t           step;
    logic            is_asked, is_inside, was_taken, is_last, writes, write_bit;
    logic [BITS-1:0] newest, write_at;
    logic [BITS-1:0] looked;               // entries that this search has checked
    logic            taken [1 << BITS];
    assign is_inside = {1'b0, number} + 1'b1 > (BITS + 1)'(FIRST) && {1'b0, number} < capacity;
    assign is_last = chosen || &looked;
    assign answered = step == ANSWER;

    assign writes = step == CLEAR || take || give_valid;
    assign write_at = give_valid ? give_number : number;
    assign write_bit = step != CLEAR && take;
    always_ff @(posedge clk) begin
        if (writes) taken[write_at] <= write_bit;
        was_taken <= taken[number];
    end

    always_ff @(posedge clk) begin
        if (ask) is_asked <= 1'b1;
        if (take) newest <= number;
        case (step)
            CLEAR: begin
                number <= number + 1'b1;
                if (&number) step <= IDLE;
            end
            IDLE: if (is_asked) begin
                is_asked <= 1'b0;
                number <= chosen ? wanted[BITS-1:0] : newest + 1'b1;
                looked <= '0;
                step <= READ;
            end
            READ: begin
                step <= LOOK;
                if (chosen && wanted[31:BITS] != '0) begin
                    status <= ferroce_pkg::COMMAND_STATUS_NO_RESOURCES;
                    step <= ANSWER;
                end
            end
            LOOK: begin
                looked <= looked + 1'b1;
                status <= ferroce_pkg::COMMAND_STATUS_SUCCESS;
                step <= ANSWER;
                if (!is_inside || was_taken) begin
                    status <= chosen && is_inside ? ferroce_pkg::COMMAND_STATUS_BUSY
                                                  : ferroce_pkg::COMMAND_STATUS_NO_RESOURCES;
                    if (!is_last) begin
                        number <= number + 1'b1;
                        step <= READ;
                    end
                end
            end
            default: step <= IDLE;
        endcase
        if (rst) begin
            step <= CLEAR;
            number <= '0;
            newest <= BITS'(FIRST) - 1'b1;
            is_asked <= 1'b0;
        end
    end

    always_ff @(posedge clk) begin
        if (!rst && take) assert (step == IDLE && status == ferroce_pkg::COMMAND_STATUS_SUCCESS && !give_valid);
        if (!rst && give_valid) assert (step == IDLE);
    end
endmodule

`default_nettype wire
