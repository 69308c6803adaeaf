// SPDX-License-Identifier: MIT OR Apache-2.0
`default_nettype none

// MSI-X table and pending bits (PCIe base specification, 7.7.2): an unmasked vector's message is a
// posted write; a masked vector's message stays pending.
//
// Ports: write_* as in registers; only the table is decoded; pair_at selects a pair of words, in the
// same cycle. interrupt_* takes a vector; message_* gives the write: address, data and vector.
// Invariants: after power-on all vectors are masked; a reset of the function leaves the table as it
// is; messages of unmasked vectors leave in the order of the interrupts. `disabled` and
// `function_masked` (MSI-X Enable and Function Mask of configuration space) mask all vectors.
module msix_table (
    input  logic         clk,
    input  logic         rst,              // power-on
    input  logic         reset,            // of the function
    input  logic         disabled,
    input  logic         function_masked,

    input  logic         write_valid,
    input  logic         write_wide,
    input  logic [13:0]  write_at,         // a multiple of four
    input  logic [63:0]  write_data,
    input  logic [9:0]   pair_at,            // bits 12:3 of the offset
    output logic [63:0]  pair,

    input  logic         interrupt_valid,
    output logic         interrupt_ready,
    input  logic [3:0]   interrupt_vector,
    output logic         message_valid,
    input  logic         message_ready,
    output logic [63:0]  message_address,
    output logic [31:0]  message_data,
    output logic [3:0]   message_vector
);
    wire unused_inputs = &{1'b0, write_at};
    localparam int VECTORS = 16;
    localparam logic [9:0] PENDING_PAIR = ferroce_pkg::MSIX_PENDING_OFFSET[12:3];

    logic [63:0]        addresses [VECTORS];
    logic [31:0]        data [VECTORS];
    logic [31:0]        controls [VECTORS];
    logic [VECTORS-1:0] pending, masked;
    for (genvar n = 0; n < VECTORS; n++) begin : g_masked
        assign masked[n] = controls[n][0] || disabled || function_masked;
    end

    // ------------------------------------------------------------------------------ reads and writes
    logic       low_valid, high_valid, is_table;
    logic [3:0] entry;
    logic [31:0] low, high;
    assign is_table = write_at[13:8] == ferroce_pkg::MSIX_TABLE_OFFSET[13:8];
    assign low_valid = write_valid && is_table && (write_wide || !write_at[2]);
    assign high_valid = write_valid && is_table && (write_wide || write_at[2]);
    assign entry = write_at[7:4];
    assign low = write_data[31:0];
    assign high = write_wide ? write_data[63:32] : write_data[31:0];
    always_ff @(posedge clk) begin
        if (low_valid && !write_at[3]) addresses[entry][31:0] <= low;
        if (high_valid && !write_at[3]) addresses[entry][63:32] <= high;
        if (low_valid && write_at[3]) data[entry] <= low;
        if (high_valid && write_at[3]) controls[entry] <= high;
        if (rst)
            for (int n = 0; n < VECTORS; n++) begin
                addresses[n] <= '0;
                data[n] <= '0;
                controls[n] <= ferroce_pkg::MSIX_VECTOR_MASKED;
            end
    end

    always_comb begin
        pair = '1;
        if (pair_at[9:5] == '0)
            pair = pair_at[0] ? {controls[pair_at[4:1]], data[pair_at[4:1]]} : addresses[pair_at[4:1]];
        if (pair_at == PENDING_PAIR) pair = {48'b0, pending};
    end

    // ------------------------------------------------------------------------------------- messages
    logic [VECTORS-1:0] unmasked;          // pending, and may leave
    logic [3:0]         first;
    assign unmasked = pending & ~masked;
    always_comb begin
        first = '0;
        for (int n = VECTORS - 1; n >= 0; n--)
            if (unmasked[n]) first = 4'(n);
    end
    assign interrupt_ready = !message_valid;
    always_ff @(posedge clk) begin
        if (message_ready) message_valid <= 1'b0;
        if (!message_valid) begin
            message_vector <= interrupt_vector;
            if (interrupt_valid) begin
                message_valid <= !masked[interrupt_vector];
                if (masked[interrupt_vector]) pending[interrupt_vector] <= 1'b1;
            end else if (unmasked != '0) begin
                message_vector <= first;
                message_valid <= 1'b1;
                pending[first] <= 1'b0;
            end
        end
        if (reset) message_valid <= 1'b0;
        if (rst) pending <= '0;
    end
    assign message_address = addresses[message_vector];
    assign message_data = data[message_vector];
endmodule

`default_nettype wire
