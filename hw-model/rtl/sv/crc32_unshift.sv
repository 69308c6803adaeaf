// SPDX-License-Identifier: MIT OR Apache-2.0
`default_nettype none

// Reverts zero bytes of a CRC-32 of Ethernet (reflected): computes the state before BYTES zero bytes
// from the state after them.
//
// Ports: combinational.
// Invariant: the map is linear, as the CRC is; each bit of the result is a parity of the state.
module crc32_unshift #(
    parameter int BYTES = 4
) (
    input  logic [31:0] state,
    output logic [31:0] earlier
);
    localparam logic [31:0] POLYNOMIAL = 32'hedb88320;

    // Bits 32*i +: 32 are the contribution of bit i of the state. A step of the CRC shifts right; bit
    // 31 of its result is set if and only if the polynomial was added.
    function automatic [1023:0] columns(input integer steps);
        logic [31:0] column;
        for (int i = 0; i < 32; i++) begin
            column = 32'd1 << i;
            for (int s = 0; s < steps; s++)
                column = column[31] ? (column ^ POLYNOMIAL) << 1 | 32'd1 : column << 1;
            columns[32*i +: 32] = column;
        end
    endfunction
    localparam logic [1023:0] COLUMNS = columns(8 * BYTES);

    always_comb begin
        earlier = '0;
        for (int i = 0; i < 32; i++)
            if (state[i]) earlier ^= COLUMNS[32*i +: 32];
    end
endmodule

`default_nettype wire
