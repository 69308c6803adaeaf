// SPDX-License-Identifier: MIT OR Apache-2.0
`default_nettype none

// Goal: the choice of a way has the properties that the cache relies on. Method: all sets of three
// ways (a counter of two bits does not wrap at three by itself), and three consecutive replacements.
module proof (
    input logic       clk,
    input logic [2:0] valid,
    input logic [2:0] match,
    input logic [1:0] last_victim
);
    logic       hit, replaces;
    logic [1:0] way;
    cache_way #(.WAYS(3)) dut (.valid, .match, .last_victim, .hit, .replaces, .way);

    // A full set without a match, repeatedly.
    logic [1:0] way0, way1, way2;
    /* verilator lint_off PINCONNECTEMPTY */   // only which way
    cache_way #(.WAYS(3)) turn0 (.valid(3'b111), .match(3'b000), .last_victim, .hit(), .replaces(), .way(way0));
    cache_way #(.WAYS(3)) turn1 (.valid(3'b111), .match(3'b000), .last_victim(way0), .hit(), .replaces(), .way(way1));
    cache_way #(.WAYS(3)) turn2 (.valid(3'b111), .match(3'b000), .last_victim(way1), .hit(), .replaces(), .way(way2));
    /* verilator lint_on PINCONNECTEMPTY */

    always @(posedge clk) begin
        assert (way < 2'd3);
        assert (hit == (match != '0));
        if (hit) assert (match[way] && !replaces);
        if (!hit && valid != 3'b111) assert (!valid[way] && !replaces);
        if (!hit && valid == 3'b111) assert (replaces && way == way0);
        assert (way0 != way1 && way1 != way2 && way0 != way2);
    end
endmodule

`default_nettype wire
