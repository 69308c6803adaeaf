// SPDX-License-Identifier: MIT OR Apache-2.0
`default_nettype none

// The counters of the contract: 64 bits each, by their number.
//
// Ports: a pulse in `count` adds the element of `amounts` with the same number, which is one unless
// it is wired otherwise; `counter` is counter `counter_index`, in the same cycle.
// Invariant: all are zero after a reset. A pulse that no block generates is wired to zero, so its
// counter costs no logic.
module counters #(
    parameter int COUNT = ferroce_pkg::COUNTER_COUNT,
    parameter int AMOUNT_BITS = 14
) (
    input  logic                         clk,
    input  logic                         rst,
    input  logic [COUNT-1:0]             count,
    input  logic [COUNT*AMOUNT_BITS-1:0] amounts,
    input  logic [7:0]                   counter_index,
    output logic [63:0]                  counter
);
    logic [COUNT*64-1:0] values;
    for (genvar n = 0; n < COUNT; n++) begin : g_counter
        always_ff @(posedge clk) begin
            if (count[n])
                values[64*n +: 64] <= values[64*n +: 64] + 64'(amounts[AMOUNT_BITS*n +: AMOUNT_BITS]);
            if (rst) values[64*n +: 64] <= '0;
        end
    end
    assign counter = counter_index < 8'(COUNT) ? values[{counter_index[6:0], 6'b0} +: 64] : '0;
endmodule

`default_nettype wire
