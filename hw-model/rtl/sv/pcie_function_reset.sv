// SPDX-License-Identifier: MIT OR Apache-2.0
`default_nettype none

// Function-level reset (PCIe base specification, 6.6.2; PG213's cfg_flr ports): resets the card, and
// reports the end when nothing of the time before is left.
//
// Ports: `in_process` is cfg_flr_in_process of the function, `done` is cfg_flr_done: a pulse.
// `function_reset` and `resetting` connect to `card`. `idle`: no write waits, no read is outstanding,
// and no completion waits.
// Invariant: `done` comes once for each reset, after the card has come out of it and was idle.
module pcie_function_reset (
    input  logic clk,
    input  logic rst,
    input  logic in_process,
    output logic done,
    output logic function_reset,
    input  logic resetting,
    input  logic idle
);
    typedef enum logic [1:0] {AT_REST, AT_BEGIN, AT_RESET, AT_DONE} step_t;
    step_t step;
    assign function_reset = step == AT_BEGIN;
    always_ff @(posedge clk) begin
        done <= 1'b0;
        case (step)
            AT_REST: if (in_process) step <= AT_BEGIN;
            AT_BEGIN: step <= AT_RESET;
            // `resetting` holds from this cycle on.
            AT_RESET: if (!resetting && idle) begin
                step <= AT_DONE;
                done <= 1'b1;
            end
            default: if (!in_process) step <= AT_REST;
        endcase
        if (rst) begin
            step <= AT_REST;
            done <= 1'b0;
        end
    end
endmodule

`default_nettype wire
