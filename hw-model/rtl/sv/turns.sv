// SPDX-License-Identifier: MIT OR Apache-2.0
`default_nettype none

// Round-robin arbiter: chooses one of several requesting clients. A choice stays until it is taken.
//
// Ports: `wants` has a bit for each client; `chosen` is one of them when `is_any`; `taken` ends its
// turn. A client keeps its bit set until it is taken.
// Invariant: a client is skipped at most CLIENTS - 1 times.
module turns #(
    parameter int CLIENTS = 8
) (
    input  logic                       clk,
    input  logic                       rst,
    input  logic [CLIENTS-1:0]         wants,
    input  logic                       taken,
    output logic [$clog2(CLIENTS)-1:0] chosen,
    output logic                       is_any
);
    localparam int BITS = $clog2(CLIENTS);

    logic [BITS-1:0]    last, held, next;
    logic               holds;
    logic [CLIENTS-1:0] behind;            // clients after the last one
    always_comb begin
        for (int n = 0; n < CLIENTS; n++) behind[n] = wants[n] && BITS'(n) > last;
        next = '0;
        for (int n = CLIENTS - 1; n >= 0; n--)
            if (wants[n] && behind == '0) next = BITS'(n);
        for (int n = CLIENTS - 1; n >= 0; n--)
            if (behind[n]) next = BITS'(n);
    end
    assign is_any = wants != '0;
    assign chosen = holds ? held : next;
    always_ff @(posedge clk) begin
        held <= chosen;
        holds <= is_any && !taken;
        if (taken) last <= chosen;
        if (rst) begin
            holds <= 1'b0;
            last <= '0;
        end
    end

    always_ff @(posedge clk) begin
        if (!rst && is_any) assert (wants[chosen]);
    end
endmodule

`default_nettype wire
