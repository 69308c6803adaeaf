// SPDX-License-Identifier: MIT OR Apache-2.0
`default_nettype none

// Decodes the headers after the BTH from its opcode (IBTA vol 1, 9.2.1).
//
// Ports: `known` is low for reserved codes and for Reliable Datagram. `has_*`: the header exists.
// `length` is in bytes, BTH included. Combinational.
// Invariant: an unknown opcode has no header other than the BTH.
module roce_opcode (
    input  logic [7:0] opcode,
    output logic       known,
    output logic       has_xrceth,
    output logic       has_deth,
    output logic       has_feth,
    output logic       has_reth,
    output logic       has_atomiceth,
    output logic       has_aeth,
    output logic       has_atomicacketh,
    output logic       has_immediate,
    output logic       has_ieth,
    output logic [5:0] length
);
    localparam logic [2:0] RC = 3'd0, UC = 3'd1, UD = 3'd3, XRC = 3'd5;
    localparam logic [7:0] CNP = 8'h81;
    localparam logic [4:0] FLUSH = 5'h1c, ATOMIC_WRITE = 5'h1d;   // IBTA annex A19

    logic [2:0] service;
    logic [4:0] code;
    logic       reliable, connected, is_send_or_write, is_memory_placement, cnp;
    assign {service, code} = opcode;
    assign reliable = service == RC || service == XRC;
    assign connected = reliable || service == UC;
    assign is_send_or_write = code <= 5'h0b;
    assign is_memory_placement = code == FLUSH || code == ATOMIC_WRITE;
    assign cnp = opcode == CNP;

    always_comb begin
        if (is_send_or_write) known = connected || (service == UD && (code == 5'h04 || code == 5'h05));
        else known = reliable && ((code <= 5'h17 && code != 5'h15) || is_memory_placement);
        known |= cnp;
        has_feth = known && code == FLUSH;
        has_reth = known && !cnp
                 && (code == 5'h06 || code == 5'h0a || code == 5'h0b || code == 5'h0c || is_memory_placement);
        has_immediate = known && (code == 5'h03 || code == 5'h05 || code == 5'h09 || code == 5'h0b);
        has_aeth = known && (code == 5'h0d || (code >= 5'h0f && code <= 5'h12));
        has_atomicacketh = known && code == 5'h12;
        has_atomiceth = known && (code == 5'h13 || code == 5'h14);
        has_ieth = known && (code == 5'h16 || code == 5'h17);
        has_deth = known && service == UD;
        // Responses name no shared receive queue.
        has_xrceth = known && service == XRC && !(code >= 5'h0d && code <= 5'h12);
        length = 6'd12 + (has_xrceth ? 6'd4 : 6'd0) + (has_deth ? 6'd8 : 6'd0) + (has_feth ? 6'd4 : 6'd0)
               + (has_reth ? 6'd16 : 6'd0) + (has_immediate || has_ieth ? 6'd4 : 6'd0) + (has_aeth ? 6'd4 : 6'd0)
               + (has_atomicacketh ? 6'd8 : 6'd0) + (has_atomiceth ? 6'd28 : 6'd0) + (cnp ? 6'd16 : 6'd0);
    end
endmodule

`default_nettype wire
