// SPDX-License-Identifier: MIT OR Apache-2.0
`default_nettype none

// Goal: PSNs are ordered circularly. Method: all pairs, and all pairs shifted.
module proof (
    input logic        clk,
    input logic [23:0] psn,
    input logic [23:0] expected,
    input logic [23:0] shift
);
    logic        same, ahead, behind, same2, ahead2, behind2, same3, ahead3, behind3;
    logic [23:0] distance, distance2, distance3;
    psn_compare dut (.psn, .expected, .is_expected(same), .is_ahead(ahead), .is_behind(behind), .distance);
    psn_compare mirrored (
        .psn(expected), .expected(psn), .is_expected(same2), .is_ahead(ahead2), .is_behind(behind2),
        .distance(distance2)
    );
    psn_compare shifted (
        .psn(psn + shift), .expected(expected + shift), .is_expected(same3), .is_ahead(ahead3), .is_behind(behind3),
        .distance(distance3)
    );
    always @(posedge clk) begin
        assert ({1'b0, same} + {1'b0, ahead} + {1'b0, behind} == 2'd1);
        assert (same == (psn == expected));
        assert ({same, ahead, behind, distance} == {same3, ahead3, behind3, distance3});
        assert (distance == distance2 && distance <= 24'h80_0000);
        if (ahead) assert (behind2 && expected + distance == psn && distance < 24'h80_0000);
        if (behind) assert (psn + distance == expected);
        if (behind && distance != 24'h80_0000) assert (ahead2);
    end
endmodule

`default_nettype wire
