// SPDX-License-Identifier: MIT OR Apache-2.0
`default_nettype none

// Chooses the way of a set for a look-up: the way that holds the entry, otherwise an empty one,
// otherwise the next one (round robin).
//
// Ports: `valid` and `match` have a bit for each way, `last_victim` is the way that was replaced last
// in this set. `hit`: `way` holds the entry. `replaces`: `way` holds another entry. Combinational.
// Invariants (proved in formal/cache_way.sv): `way` is a way that exists; a hit names a way that
// matches; no entry is replaced while a way is empty; WAYS replacements in a row use all ways.
module cache_way #(
    parameter int WAYS = 4
) (
    input  logic [WAYS-1:0]         valid,
    input  logic [WAYS-1:0]         match,
    input  logic [$clog2(WAYS)-1:0] last_victim,
    output logic                    hit,
    output logic                    replaces,
    output logic [$clog2(WAYS)-1:0] way
);
    localparam int LOG_WAYS = $clog2(WAYS);

    logic [LOG_WAYS-1:0] matching, empty, next_victim;
    assign next_victim = last_victim >= LOG_WAYS'(WAYS - 1) ? '0 : last_victim + 1'b1;
    always_comb begin
        matching = '0;
        empty = '0;
        for (int w = WAYS - 1; w >= 0; w--) begin
            if (match[w]) matching = LOG_WAYS'(w);
            if (!valid[w]) empty = LOG_WAYS'(w);
        end
    end

    assign hit = |match;
    assign replaces = !hit && &valid;
    assign way = hit ? matching : &valid ? next_victim : empty;
endmodule

`default_nettype wire
