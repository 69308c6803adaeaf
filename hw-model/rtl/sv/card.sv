// The card: a RoCEv2 NIC with the registers, commands and queues of the contract. Wiring; CARD.md has
// the picture.
//
// Ports: `now_ns` (the clock register), `timer_ns` (protocol timers), `mac`, `link_up` and the first
// QPN are the board's. write_* and read_* are accesses to
// BAR0, doorbell_* writes to BAR2, dma_* lines of host memory, tx_* and rx_* frames without FCS.
// fail_injected and hang_commands are faults for tests. `quiet`: nothing is under way, and nothing will be before an
// input changes or `deadline_ns`, when `deadline_valid`. gid_* and begins_* tell a simulated network
// which address the card has, and which QP can receive.
module card (
    input  logic         clk,
    input  logic         rst,
    input  logic [63:0]  now_ns,
    /* verilator lint_off UNUSEDSIGNAL */
    input  logic [63:0]  timer_ns,
    /* verilator lint_on UNUSEDSIGNAL */
    input  logic [47:0]  mac,
    input  logic         link_up,
    input  logic [23:8]  qpn_base,
    input  logic         fail_injected,
    input  logic         hang_commands,
    output logic         quiet,
    output logic         stopped,
    output logic         deadline_valid,
    output logic [63:0]  deadline_ns,

    input  logic         write_valid,
    input  logic         write_wide,
    input  logic [13:0]  write_at,
    input  logic [63:0]  write_data,
    input  logic         read_valid,
    input  logic         read_wide,
    input  logic [13:0]  read_at,
    output logic [63:0]  read_data,
    input  logic         doorbell_valid,
    output logic         doorbell_ready,
    input  logic [18:0]  doorbell_slot,
    input  logic [63:0]  doorbell_value,

    output logic         dma_read_valid,
    input  logic         dma_read_ready,
    output logic [63:0]  dma_read_iova,
    output logic [10:0]  dma_read_tag,
    input  logic         dma_line_valid,
    input  logic         dma_line_error,
    input  logic [10:0]  dma_line_tag,
    input  logic [511:0] dma_line,
    output logic         dma_write_valid,
    input  logic         dma_write_ready,
    input  logic         dma_write_error,
    output logic [63:0]  dma_write_iova,
    output logic [511:0] dma_write_line,
    output logic [63:0]  dma_write_strobe,
    output logic         dma_write_message,
    output logic [3:0]   dma_write_vector,

    output logic         tx_valid,
    /* verilator lint_off UNUSEDSIGNAL */
    input  logic         tx_ready,
    output logic [511:0] tx_data,
    output logic [6:0]   tx_bytes,
    output logic         tx_last,
    input  logic         rx_valid,
    input  logic [511:0] rx_data,
    input  logic [6:0]   rx_bytes,
    input  logic         rx_last,
    /* verilator lint_on UNUSEDSIGNAL */
    output logic         rx_room,

    output logic         gid_valid,
    output logic [card_pkg::LOG_GIDS-1:0] gid_index,
    output logic [127:0] gid,
    output logic         begins_valid,
    output logic [23:0]  begins_qpn
);
    /* verilator lint_off PINCONNECTEMPTY */
    /* verilator lint_off UNUSEDSIGNAL */
    localparam int READ_CLIENTS = 8;
    localparam int WRITE_COMMAND = 0, WRITE_EVENT = 1, WRITE_CLIENTS = 2;
    localparam int QP_COMMAND = 0, QP_DOORBELL = 1, QP_READERS = 2;
    localparam int GID_COMMAND = 0, GID_READERS = 1;
    localparam int COUNTERS = ferroce_pkg::COUNTER_COUNT, AMOUNT_BITS = 14;

    // ------------------------------------------------------------------------------------- registers
    logic        reset, drained, enabled, fatal_command;
    logic [63:0] ring_base, counter, msix_pair;
    logic [3:0]  ring_log;
    logic [31:0] posted, completed;
    logic [7:0]  counter_index;
    logic [9:0]  msix_at;
    logic        event_doorbell_valid, event_doorbell_ready, event_doorbell_arm;
    logic [3:0]  event_doorbell_eqn;
    logic [23:0] event_doorbell_consumer;
    registers bar0 (
        .clk(clk), .rst(rst), .reset(reset), .reads_drained(drained),
        .now_ns(now_ns), .mac(mac), .link_up(link_up),
        .write_valid(write_valid), .write_wide(write_wide), .write_at(write_at), .write_data(write_data),
        .read_valid(read_valid), .read_wide(read_wide), .read_at(read_at), .read_data(read_data),
        .enabled(enabled), .ring_base(ring_base), .ring_log(ring_log), .posted(posted), .completed(completed),
        .fatal_command(fatal_command), .fatal_event(1'b0), .fatal_context(1'b0), .fatal_injected(fail_injected),
        .stopped(stopped), .counter_index(counter_index), .counter(counter), .msix_at(msix_at), .msix_pair(msix_pair),
        .doorbell_valid(event_doorbell_valid), .doorbell_ready(event_doorbell_ready),
        .doorbell_eqn(event_doorbell_eqn), .doorbell_consumer(event_doorbell_consumer), .doorbell_arm(event_doorbell_arm)
    );

    logic        interrupt_valid, interrupt_ready, message_valid, message_ready;
    logic [3:0]  interrupt_vector, message_vector;
    logic [63:0] message_address;
    logic [31:0] message_data;
    msix_table vectors (
        .clk(clk), .rst(rst), .reset(reset), .write_valid(write_valid), .write_wide(write_wide),
        .write_at(write_at), .write_data(write_data), .pair_at(msix_at), .pair(msix_pair),
        .interrupt_valid(interrupt_valid), .interrupt_ready(interrupt_ready), .interrupt_vector(interrupt_vector),
        .message_valid(message_valid), .message_ready(message_ready), .message_address(message_address),
        .message_data(message_data), .message_vector(message_vector)
    );

    // ------------------------------------------------------------------------------------------- DMA
    logic [READ_CLIENTS-1:0]    read_valids, read_readies, line_valids;
    logic [64*READ_CLIENTS-1:0] read_iovas;
    logic [7*READ_CLIENTS-1:0]  read_indices;
    logic                       line_error;
    logic [6:0]                 line_index;
    logic [511:0]               line;
    dma_read #(.CLIENTS(READ_CLIENTS)) reads (
        .clk(clk), .rst(rst), .reset(reset), .stopped(stopped), .drained(drained),
        .read_valid(read_valids), .read_ready(read_readies), .read_iova(read_iovas), .read_index(read_indices),
        .line_valid(line_valids), .line_error(line_error), .line_index(line_index), .line(line),
        .dma_read_valid(dma_read_valid), .dma_read_ready(dma_read_ready), .dma_read_iova(dma_read_iova),
        .dma_read_tag(dma_read_tag), .dma_line_valid(dma_line_valid), .dma_line_error(dma_line_error),
        .dma_line_tag(dma_line_tag), .dma_line(dma_line)
    );

    logic [WRITE_CLIENTS-1:0]     write_valids, write_readies;
    logic [64*WRITE_CLIENTS-1:0]  write_iovas, write_strobes;
    logic [512*WRITE_CLIENTS-1:0] write_lines;
    logic                         write_error;
    dma_write #(.CLIENTS(WRITE_CLIENTS), .LAST(WRITE_EVENT)) writes (
        .clk(clk), .reset(reset), .stopped(stopped),
        .write_valid(write_valids), .write_ready(write_readies), .write_iova(write_iovas),
        .write_line(write_lines), .write_strobe(write_strobes), .write_error(write_error),
        .message_valid(message_valid), .message_ready(message_ready), .message_address(message_address),
        .message_data(message_data), .message_vector(message_vector),
        .dma_write_valid(dma_write_valid), .dma_write_ready(dma_write_ready), .dma_write_error(dma_write_error),
        .dma_write_iova(dma_write_iova), .dma_write_line(dma_write_line), .dma_write_strobe(dma_write_strobe),
        .dma_write_message(dma_write_message), .dma_write_vector(dma_write_vector)
    );

    // ---------------------------------------------------------------------------------------- tables
    logic [QP_READERS*card_pkg::LOG_QPS-1:0] qp_indices;
    logic [QP_READERS*card_pkg::QP_BITS-1:0] qps;
    logic                        qp_write, qps_idle;
    card_pkg::qp_t               qp_to_write;
    qp_table #(.READERS(QP_READERS)) queue_pairs (
        .clk(clk), .rst(reset), .index(qp_indices), .qps(qps), .write_valid(qp_write),
        .write_index(qp_indices[QP_COMMAND*card_pkg::LOG_QPS +: card_pkg::LOG_QPS]), .write_qp(qp_to_write),
        .fail_valid('0), .fail_qp('0), .wake_valid(), .wake_qp(), .idle(qps_idle)
    );
    logic [GID_READERS*card_pkg::LOG_GIDS-1:0] gid_indices;
    logic [GID_READERS*128-1:0] gids;
    logic [GID_READERS*48-1:0]  macs;
    logic [GID_READERS*16-1:0]  vlans;
    logic                       gid_write;
    logic [127:0]               gid_to_write;
    logic [47:0]                mac_to_write;
    logic [15:0]                vlan_to_write;
    gid_table #(.READERS(GID_READERS)) addresses (
        .clk(clk), .rst(reset), .write_valid(gid_write),
        .write_index(gid_indices[GID_COMMAND*card_pkg::LOG_GIDS +: card_pkg::LOG_GIDS]), .write_gid(gid_to_write),
        .write_mac(mac_to_write), .write_vlan(vlan_to_write), .index(gid_indices), .gid(gids), .mac(macs), .vlan(vlans)
    );
    assign gid_valid = gid_write;
    assign gid_index = gid_indices[GID_COMMAND*card_pkg::LOG_GIDS +: card_pkg::LOG_GIDS];
    assign gid = gid_to_write;
    logic       slot_valid, slot_is_cq, slot_exists, doorbells_idle, count_doorbell, count_doorbell_error;
    logic [7:0] slot_number;
    logic [card_pkg::LOG_SLOTS:0] slot_send, slot_receive;
    doorbell_table doorbells (
        .clk(clk), .rst(reset), .qpn_base(qpn_base),
        .doorbell_valid(doorbell_valid), .doorbell_ready(doorbell_ready), .doorbell_slot(doorbell_slot),
        .doorbell_value(doorbell_value), .slot_valid(slot_valid), .slot_is_cq(slot_is_cq),
        .slot_exists(slot_exists), .slot_number(slot_number), .slot_send(slot_send), .slot_receive(slot_receive),
        .qp_index(qp_indices[QP_DOORBELL*card_pkg::LOG_QPS +: card_pkg::LOG_QPS]),
        .qp(qps[QP_DOORBELL*card_pkg::QP_BITS +: card_pkg::QP_BITS]),
        .send_valid(), .send_ready(1'b1), .receive_valid(), .receive_ready(1'b1), .ring_qp(), .ring_index(),
        .arm_valid(), .arm_ready(1'b1), .arm_cqn(), .arm_solicited(), .arm_consumer(),
        .count_doorbell(count_doorbell), .count_error(count_doorbell_error), .idle(doorbells_idle)
    );

    // ------------------------------------------------------------------------------------- commands
    logic        commands_idle, count_command, count_command_error;
    logic        entry_valid, entry_done;
    assign read_valids[READ_CLIENTS-1:1] = '0;
    assign read_iovas[64*READ_CLIENTS-1:64] = '0;
    assign read_indices = '0;
    always_ff @(posedge clk) entry_done <= !reset && entry_valid;
    command_engine commands (
        .clk(clk), .rst(reset), .qpn_base(qpn_base), .enabled(enabled), .hang(hang_commands), .ring_base(ring_base),
        .ring_log(ring_log), .posted(posted), .completed(completed), .fatal(fatal_command), .idle(commands_idle),
        .count_command(count_command), .count_error(count_command_error),
        .read_valid(read_valids[card_pkg::READ_COMMAND]), .read_ready(read_readies[card_pkg::READ_COMMAND]),
        .read_iova(read_iovas[63:0]), .line_valid(line_valids[card_pkg::READ_COMMAND]),
        .line_error(line_error), .line(line),
        .write_valid(write_valids[WRITE_COMMAND]), .write_ready(write_readies[WRITE_COMMAND]), .write_error(write_error),
        .write_iova(write_iovas[64*WRITE_COMMAND +: 64]), .write_line(write_lines[512*WRITE_COMMAND +: 512]),
        .write_strobe(write_strobes[64*WRITE_COMMAND +: 64]),
        .eq_control_valid(), .eq_control_ready(1'b1), .eq_control_op(), .eq_control_number(),
        .eq_control_context(), .eq_answer_context('0),
        .cq_control_valid(), .cq_control_ready(1'b1), .cq_control_op(), .cq_control_number(),
        .cq_control_context(), .cq_answer_context('0),
        .requester_valid(), .requester_ready(1'b1), .responder_valid(), .responder_ready(1'b1), .control(),
        .query_send_psn('0), .query_unacknowledged_psn('0), .query_send_producer('0), .query_send_fetched('0),
        .query_receive_psn('0), .query_message_sequence('0), .query_receive_producer('0), .query_receive_consumer('0),
        .entry_valid(entry_valid), .entry_ready(1'b1), .entry_op(), .entry_key(), .entry_line(), .entry_base(),
        .entry_log(), .entry_done(entry_done), .entry_fault('0), .entry_answer('0),
        .qp_index(qp_indices[QP_COMMAND*card_pkg::LOG_QPS +: card_pkg::LOG_QPS]),
        .qp(qps[QP_COMMAND*card_pkg::QP_BITS +: card_pkg::QP_BITS]), .qp_write(qp_write), .qp_to_write(qp_to_write),
        .qp_begins(begins_valid), .slot_valid(slot_valid), .slot_is_cq(slot_is_cq), .slot_exists(slot_exists),
        .slot_number(slot_number), .slot_send(slot_send), .slot_receive(slot_receive),
        .gid_write(gid_write), .gid_index(gid_indices[GID_COMMAND*card_pkg::LOG_GIDS +: card_pkg::LOG_GIDS]),
        .gid_to_write(gid_to_write), .mac_to_write(mac_to_write), .vlan_to_write(vlan_to_write),
        .gid(gids[128*GID_COMMAND +: 128]), .mac(macs[48*GID_COMMAND +: 48]), .vlan(vlans[16*GID_COMMAND +: 16])
    );
    assign begins_qpn = {qpn_base, qp_indices[QP_COMMAND*card_pkg::LOG_QPS +: card_pkg::LOG_QPS]};

    // ---------------------------------------------------------------------------------------- events
    assign event_doorbell_ready = 1'b1;
    assign interrupt_valid = 1'b0;
    assign interrupt_vector = '0;
    assign write_valids[WRITE_EVENT] = 1'b0;
    assign write_iovas[64*WRITE_EVENT +: 64] = '0;
    assign write_lines[512*WRITE_EVENT +: 512] = '0;
    assign write_strobes[64*WRITE_EVENT +: 64] = '0;
    assign deadline_valid = 1'b0;
    assign deadline_ns = '0;
    assign rx_room = 1'b1;
    assign tx_valid = 1'b0;
    assign tx_data = '0;
    assign tx_bytes = '0;
    assign tx_last = 1'b0;

    // -------------------------------------------------------------------------------------- counters
    logic [COUNTERS-1:0]             count;
    logic [COUNTERS*AMOUNT_BITS-1:0] amounts;
    logic                            begins_read, ends_write;
    assign begins_read = dma_read_valid && dma_read_ready;
    assign ends_write = dma_write_valid && dma_write_ready;
    always_comb begin
        count = COUNTERS'(count_doorbell) << ferroce_pkg::COUNTER_DOORBELLS
              | COUNTERS'(count_doorbell_error) << ferroce_pkg::COUNTER_DOORBELL_ERRORS
              | COUNTERS'(message_valid && message_ready) << ferroce_pkg::COUNTER_INTERRUPTS
              | COUNTERS'(count_command) << ferroce_pkg::COUNTER_COMMANDS
              | COUNTERS'(count_command_error) << ferroce_pkg::COUNTER_COMMAND_ERRORS
              | COUNTERS'(begins_read) << ferroce_pkg::COUNTER_DMA_READS
              | COUNTERS'(begins_read) << ferroce_pkg::COUNTER_DMA_READ_BYTES
              | COUNTERS'(ends_write) << ferroce_pkg::COUNTER_DMA_WRITES
              | COUNTERS'(ends_write) << ferroce_pkg::COUNTER_DMA_WRITE_BYTES
              | COUNTERS'((dma_line_valid && dma_line_error) || (ends_write && dma_write_error))
                << ferroce_pkg::COUNTER_DMA_ERRORS;
        amounts = {COUNTERS{AMOUNT_BITS'(1)}};
        amounts[AMOUNT_BITS*ferroce_pkg::COUNTER_DMA_READ_BYTES +: AMOUNT_BITS] = AMOUNT_BITS'(64);
        amounts[AMOUNT_BITS*ferroce_pkg::COUNTER_DMA_WRITE_BYTES +: AMOUNT_BITS] = AMOUNT_BITS'(strobed);
    end
    logic [6:0] strobed;                   // bytes of a write
    always_comb begin
        strobed = '0;
        for (int n = 0; n < 64; n++) strobed = strobed + 7'(dma_write_strobe[n]);
    end
    counters #(.AMOUNT_BITS(AMOUNT_BITS)) counts (
        .clk(clk), .rst(reset), .count(count), .amounts(amounts), .counter_index(counter_index), .counter(counter)
    );

    assign quiet = !reset && !event_doorbell_valid && !message_valid
                && (stopped || (commands_idle && doorbells_idle && qps_idle && !doorbell_valid));
    /* verilator lint_on UNUSEDSIGNAL */
    /* verilator lint_on PINCONNECTEMPTY */
endmodule
