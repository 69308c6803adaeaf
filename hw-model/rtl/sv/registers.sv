// SPDX-License-Identifier: MIT OR Apache-2.0
`default_nettype none

// BAR0 without the MSI-X table: identity, control and reset, command queue, doorbells of event
// queues, counters, clock.
//
// Ports: write_* is an access of 4 bytes, or of 8 with `write_wide`; read_* likewise: `read_data` is
// valid in the next cycle, in its low half for 4 bytes. `reset` is the reset of everything else:
// after power-on, and from the write of Control.reset or from `function_reset` until `reads_drained`
// (see dma_read). fatal_*
// pulse when a block cannot go on; `stopped` holds until the next reset. counter_index selects a
// counter, msix_* a word pair of the MSI-X table, in the same cycle. doorbell_* hands over the newest
// value of each event queue's doorbell.
// Invariants: every offset has an answer; identity does not change; a high half that was latched is
// read once.
module registers (
    input  logic         clk,
    input  logic         rst,
    input  logic         function_reset,
    output logic         reset,
    input  logic         reads_drained,

    input  logic [63:0]  now_ns,
    input  logic [47:0]  mac,
    input  logic         link_up,

    input  logic         write_valid,
    input  logic         write_wide,
    input  logic [13:0]  write_at,
    input  logic [63:0]  write_data,
    input  logic         read_valid,
    input  logic         read_wide,
    input  logic [13:0]  read_at,
    output logic [63:0]  read_data,

    output logic         enabled,
    output logic [63:0]  ring_base,
    output logic [3:0]   ring_log,
    output logic [31:0]  posted,
    input  logic [31:0]  completed,

    input  logic         fatal_command,
    input  logic         fatal_event,
    input  logic         fatal_context,
    input  logic         fatal_injected,
    output logic         stopped,

    output logic [7:0]   counter_index,
    input  logic [63:0]  counter,
    output logic [9:0]   msix_at,            // of the pair: bits 12:3 of the offset
    input  logic [63:0]  msix_pair,

    output logic         doorbell_valid,
    input  logic         doorbell_ready,
    output card_pkg::event_doorbell_t doorbell
);
    localparam int VECTORS = 16;
    localparam logic [31:0] REVISION = 32'd1;
    localparam logic [31:0] HOLE = ferroce_pkg::UNMAPPED_READ;
    localparam int RESET_CYCLES = 4;       // at least: blocks may have a register in front of their reset
    localparam logic [31:0] VERSION = {ferroce_pkg::CONTRACT_MAJOR, ferroce_pkg::CONTRACT_MINOR};
    localparam logic [31:0] IDENTITY = {ferroce_pkg::DEVICE_ID, ferroce_pkg::VENDOR_ID};

    // ---------------------------------------------------------------------------------- capability
    ferroce_pkg::capability_t capability;
    always_comb begin
        capability = '0;
        capability.present = 1'b1;
        capability.counters = 8'(ferroce_pkg::COUNTER_COUNT);
        capability.ports = 8'd1;
        capability.log_max_mailbox = ferroce_pkg::COMMAND_LOG_MAX_MAILBOX;
        capability.vectors = 8'(VECTORS);
        capability.log_doorbell_pages = 8'(card_pkg::LOG_DOORBELL_PAGES);
    end

    // ------------------------------------------------------------------- the two words of a write
    logic        low_valid, high_valid;
    logic [13:0] low_at, high_at;
    logic [31:0] low, high;
    assign low_valid = write_valid && (write_wide || !write_at[2]);
    assign high_valid = write_valid && (write_wide || write_at[2]);
    assign low_at = {write_at[13:3], 3'b000};
    assign high_at = {write_at[13:3], 3'b100};
    assign low = write_data[31:0];
    assign high = write_wide ? write_data[63:32] : write_data[31:0];

    // --------------------------------------------------------------------------- control and reset
    logic [2:0]  reset_left;               // cycles
    logic [31:0] syndrome;
    logic        wants_reset, control_written, resetting;
    assign control_written = low_valid && low_at == ferroce_pkg::OFFSET_CONTROL;
    assign wants_reset = function_reset || (control_written && low[ferroce_pkg::CONTROL_RESET_LSB]);
    assign stopped = syndrome != ferroce_pkg::FATAL_SYNDROME_NONE;

    // After power-on, the state of the other blocks is unknown before the first edge, too.
    assign reset = rst || resetting;
    always_ff @(posedge clk) begin
        if (reset_left != '0) reset_left <= reset_left - 1'b1;
        else if (reads_drained) resetting <= 1'b0;
        if (rst || wants_reset) begin
            resetting <= 1'b1;
            reset_left <= 3'(RESET_CYCLES);
        end
    end

    always_ff @(posedge clk) begin
        if (!stopped) begin
            if (fatal_injected) syndrome <= ferroce_pkg::FATAL_SYNDROME_INJECTED;
            if (fatal_context) syndrome <= ferroce_pkg::FATAL_SYNDROME_CONTEXT_TABLE_DMA;
            if (fatal_event) syndrome <= ferroce_pkg::FATAL_SYNDROME_EVENT_QUEUE_DMA;
            if (fatal_command) syndrome <= ferroce_pkg::FATAL_SYNDROME_COMMAND_QUEUE_DMA;
        end
        if (control_written) enabled <= low[ferroce_pkg::CONTROL_ENABLE_LSB];
        if (stopped || reset || wants_reset) enabled <= 1'b0;
        if (reset) syndrome <= ferroce_pkg::FATAL_SYNDROME_NONE;
    end

    // ------------------------------------------------------------------------------- command queue A
    // doorbell may be at most a ring ahead, because entries that software owns are skipped one by
    // one.
    logic [31:0] commands_ahead;
    assign commands_ahead = high - completed;
    always_ff @(posedge clk) begin
        if (low_valid && low_at == ferroce_pkg::OFFSET_COMMAND_QUEUE_BASE && !enabled)
            ring_base[31:0] <= {low[31:6], 6'b0};
        if (high_valid && low_at == ferroce_pkg::OFFSET_COMMAND_QUEUE_BASE && !enabled)
            ring_base[63:32] <= high;
        if (low_valid && low_at == ferroce_pkg::OFFSET_COMMAND_QUEUE_LOG_SIZE && !enabled)
            ring_log <= low > ferroce_pkg::COMMAND_QUEUE_LOG_SIZE_MAX ? 4'(ferroce_pkg::COMMAND_QUEUE_LOG_SIZE_MAX)
                                                                      : low[3:0];
        if (high_valid && high_at == ferroce_pkg::OFFSET_COMMAND_QUEUE_DOORBELL && commands_ahead <= 32'd1 << ring_log)
            posted <= high;
        if (reset || wants_reset) begin
            ring_base <= '0;
            ring_log <= '0;
            posted <= '0;
        end
    end

    // ------------------------------------------------------------------- doorbells of event queues
    logic [VECTORS-1:0] rung;
    logic [24:0]        rung_values [VECTORS];   // arm, consumer index
    logic               event_written;
    assign event_written = low_at[13:6] == ferroce_pkg::OFFSET_EVENT_QUEUE_DOORBELL[13:6];
    function automatic [24:0] arm_and_consumer(input [31:0] value);
        arm_and_consumer = {value[ferroce_pkg::EVENT_QUEUE_DOORBELL_ARM_LSB],
                            value[ferroce_pkg::EVENT_QUEUE_DOORBELL_CONSUMER_INDEX_LSB
                                  +: ferroce_pkg::EVENT_QUEUE_DOORBELL_CONSUMER_INDEX_WIDTH]};
    endfunction

    logic [3:0] eqn;
    always_comb begin
        eqn = '0;
        for (int n = VECTORS - 1; n >= 0; n--)
            if (rung[n]) eqn = 4'(n);
    end
    assign doorbell_valid = rung != '0;
    assign doorbell = {eqn, rung_values[eqn]};

    always_ff @(posedge clk) begin
        for (int n = 0; n < VECTORS; n++) begin
            if (doorbell_ready && doorbell_valid && eqn == 4'(n)) rung[n] <= 1'b0;
            if (event_written && low_at[5:3] == 3'(n / 2) && (n % 2 == 1 ? high_valid : low_valid)) begin
                rung[n] <= 1'b1;
                rung_values[n] <= arm_and_consumer(n % 2 == 1 ? high : low);
            end
        end
        if (reset) rung <= '0;
    end

    // --------------------------------------------------------------------------------------- reads
    logic [63:0] pair;
    logic [31:0] status, control;
    logic        counts;
    assign counter_index = read_at[10:3];
    assign msix_at = read_at[12:3];
    always_comb begin
        status = '0;
        status[ferroce_pkg::STATUS_READY_LSB] = !reset;
        status[ferroce_pkg::STATUS_ENABLED_LSB] = enabled;
        status[ferroce_pkg::STATUS_FATAL_LSB] = stopped;
        status[ferroce_pkg::STATUS_LINK_UP_LSB] = link_up;
        control = '0;
        control[ferroce_pkg::CONTROL_ENABLE_LSB] = enabled;
        control[ferroce_pkg::CONTROL_RESET_LSB] = reset;
    end
    always_comb begin
        pair = {HOLE, HOLE};
        counts = read_at[13:12] == ferroce_pkg::COUNTERS_OFFSET[13:12];
        case ({read_at[13:3], 3'b000})
            ferroce_pkg::OFFSET_MAGIC: pair = {VERSION, ferroce_pkg::MAGIC};
            ferroce_pkg::OFFSET_DEVICE_ID: pair = {REVISION, IDENTITY};
            ferroce_pkg::OFFSET_CAPABILITY: pair = capability;
            ferroce_pkg::OFFSET_PORT_MAC: pair = {16'b0, mac};
            ferroce_pkg::OFFSET_CONTROL: pair = {status, control};
            ferroce_pkg::OFFSET_FATAL_SYNDROME: pair = {HOLE, syndrome};
            ferroce_pkg::OFFSET_CLOCK: begin
                pair = now_ns;
                counts = 1'b1;
            end
            ferroce_pkg::OFFSET_COMMAND_QUEUE_BASE: pair = ring_base;
            ferroce_pkg::OFFSET_COMMAND_QUEUE_LOG_SIZE: pair = {32'b0, 28'b0, ring_log};
            ferroce_pkg::OFFSET_COMMAND_QUEUE_CONSUMER: pair = {32'b0, completed};
            ferroce_pkg::OFFSET_PAGE_FAULT_ANSWER: pair = {HOLE, 32'b0};
            default: begin
                if (read_at[13:6] == ferroce_pkg::OFFSET_EVENT_QUEUE_DOORBELL[13:6]) pair = '0;
                if (read_at[13:12] == ferroce_pkg::COUNTERS_OFFSET[13:12]
                    && read_at[11:3] < 9'(ferroce_pkg::COUNTER_COUNT)) pair = counter;
                if (read_at[13]) pair = msix_pair;
            end
        endcase
    end

    // The high half of a running counter at the time when the low half was read.
    logic        latched;
    logic [10:0] latched_at;
    logic [31:0] latch;
    always_ff @(posedge clk) begin
        if (read_valid) begin
            read_data <= pair;
            if (!read_wide) begin
                read_data <= {32'b0, read_at[2] ? pair[63:32] : pair[31:0]};
                if (counts && read_at[2] && latched && latched_at == read_at[13:3]) read_data[31:0] <= latch;
                if (counts) begin
                    latched <= !read_at[2];
                    latched_at <= read_at[13:3];
                    latch <= pair[63:32];
                end
            end
        end
        if (reset) latched <= 1'b0;
    end

    always_ff @(posedge clk) begin
        if (!rst && enabled) assert (!stopped || syndrome != '0);
        if (!rst && read_valid && read_wide) assert (read_at[2:0] == '0);
        if (!rst && write_valid && write_wide) assert (write_at[2:0] == '0);
    end
endmodule

`default_nettype wire
