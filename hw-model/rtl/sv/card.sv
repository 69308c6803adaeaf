// SPDX-License-Identifier: MIT OR Apache-2.0
`default_nettype none

// The card: a RoCEv2 NIC with the registers, commands and queues of the contract. Wiring; CARD.md has
// the picture.
//
// Ports: `now_ns` (the clock register), `timer_ns` (protocol timers), `mac`, `link_up` and the first
// QPN are the board's. write_* and read_* are accesses to
// BAR0, doorbell_* writes to BAR2, dma_* lines of host memory, tx_* and rx_* frames without FCS;
// `rx_error` with the last beat: the MAC has found the frame damaged.
// `function_reset` is a function-level reset: Control.reset, and the MSI-X table as after power-on;
// `resetting` lasts until both are done. msix_disabled and msix_masked are MSI-X Enable (inverted) and
// Function Mask of configuration space.
// fail_injected and hang_commands are faults for tests. `quiet`: the card is idle, and stays idle
// until an input changes or until `deadline_ns`, if `deadline_valid`. gid_* and begins_* report to a
// simulated network which address the card has, and which QP can receive, `gsi_is_open` whether the GSI can.
module card (
    input  logic         clk,
    input  logic         rst,
    input  logic [63:0]  now_ns,
    input  logic [63:0]  timer_ns,
    input  logic [47:0]  mac,
    input  logic         link_up,
    input  logic [23:8]  qpn_base,
    input  logic         function_reset,
    input  logic         msix_disabled,
    input  logic         msix_masked,
    output logic         resetting,
    input  logic         fail_injected,
    input  logic         hang_commands,
    output logic         quiet,
    output logic         stopped,
    output logic         deadline_valid,
    output logic [63:0]  deadline_ns,
    output logic         timer_deadline_valid,
    output logic [63:0]  timer_deadline_ns,

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
    output logic [card_pkg::TAG_BITS-1:0] dma_read_tag,
    input  logic         dma_line_valid,
    input  logic         dma_line_error,
    input  logic [card_pkg::TAG_BITS-1:0] dma_line_tag,
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
    input  logic         tx_ready,
    output logic [511:0] tx_data,
    output logic [6:0]   tx_bytes,
    output logic         tx_last,
    input  logic         rx_valid,
    input  logic [511:0] rx_data,
    input  logic [6:0]   rx_bytes,
    input  logic         rx_last,
    input  logic         rx_error,
    output logic         rx_room,

    output logic         gid_valid,
    output logic [card_pkg::LOG_GIDS-1:0] gid_index,
    output logic [127:0] gid,
    output logic         begins_valid,
    output logic [23:0]  begins_qpn,
    output logic         gsi_is_open
);
    // Clients of DMA writes, in round-robin order; the last one may write after the card has stopped.
    localparam int WRITE_COMMAND = 0, WRITE_SCATTER = 1, WRITE_COMPLETION = 2, WRITE_MPT = 3, WRITE_ATOMIC = 4,
                   WRITE_EVENT = 5, WRITE_CLIENTS = 6;
    localparam int READ_CLIENTS = card_pkg::READ_CLIENTS;
    localparam int QP_COMMAND = 0, QP_DOORBELL = 1, QP_REQUESTER = 2, QP_COMPLETER = 3, QP_RESPONDER = 4, QP_STEER = 5,
                   QP_READERS = 6;
    localparam int GID_COMMAND = 0, GID_REQUESTER = 1, GID_TRANSMIT = 2, GID_READERS = 3;
    localparam int EVENT_COMPLETION = 0, EVENT_RESPONDER = 1, EVENT_COMMAND = 2, EVENT_SOURCES = 3;
    localparam int COUNTERS = ferroce_pkg::COUNTER_COUNT, AMOUNT_BITS = 16;
    localparam int QP_BITS = card_pkg::QP_BITS, EVENT_BITS = card_pkg::EVENT_BITS;

    // ------------------------------------------------------------------------------------- registers
    logic        reset, drained, enabled, fatal_command, fatal_event;
    logic [63:0] ring_base, counter, msix_pair;
    logic [3:0]  ring_log;
    logic [31:0] posted, completed;
    logic [7:0]  counter_index;
    logic [9:0]  msix_at;
    card_pkg::event_doorbell_t event_doorbell;
    logic        event_doorbell_valid, event_doorbell_ready;
    registers bar0 (
        .clk, .rst, .function_reset, .reset, .reads_drained(drained), .now_ns, .mac, .link_up, .write_valid,
        .write_wide, .write_at, .write_data, .read_valid, .read_wide, .read_at, .read_data, .enabled, .ring_base,
        .ring_log, .posted, .completed, .fatal_command, .fatal_event, .fatal_context(1'b0),
        .fatal_injected(fail_injected), .stopped, .counter_index, .counter, .msix_at, .msix_pair,
        .doorbell_valid(event_doorbell_valid), .doorbell_ready(event_doorbell_ready), .doorbell(event_doorbell)
    );

    assign resetting = reset;

    logic        interrupt_valid, interrupt_ready, message_valid, message_ready;
    logic [3:0]  interrupt_vector, message_vector;
    logic [63:0] message_address;
    logic [31:0] message_data;
    msix_table vectors (
        .clk, .rst(rst || function_reset), .reset, .disabled(msix_disabled), .function_masked(msix_masked),
        .write_valid, .write_wide, .write_at, .write_data, .pair_at(msix_at), .pair(msix_pair),
        .interrupt_valid, .interrupt_ready, .interrupt_vector, .message_valid, .message_ready, .message_address,
        .message_data, .message_vector
    );

    // ------------------------------------------------------------------------------------------- DMA
    logic [READ_CLIENTS-1:0] read_valids, read_readies, line_valids;
    logic [64*READ_CLIENTS-1:0] read_iovas;
    logic [card_pkg::LOG_READS*READ_CLIENTS-1:0] read_indices;
    logic [card_pkg::READ_BITS*READ_CLIENTS-1:0] all_reads;
    logic [card_pkg::LINE_BITS*READ_CLIENTS-1:0] all_lines;
    card_pkg::read_t command_read, send_read, receive_read, payload_read, mpt_read, mtt_read, completion_read, atomic_read;
    card_pkg::line_t command_line, send_line, receive_line, payload_line, mpt_line, mtt_line, completion_line, atomic_line, line;
    assign all_reads = {atomic_read, completion_read, mtt_read, mpt_read, payload_read, receive_read, send_read, command_read};
    assign {atomic_line, completion_line, mtt_line, mpt_line, payload_line, receive_line, send_line, command_line} = all_lines;
    always_comb begin
        for (int n = 0; n < READ_CLIENTS; n++) begin
            {read_valids[n], read_iovas[64*n +: 64], read_indices[card_pkg::LOG_READS*n +: card_pkg::LOG_READS]} =
                all_reads[card_pkg::READ_BITS*n +: card_pkg::READ_BITS];
            line.valid = line_valids[n];
            all_lines[card_pkg::LINE_BITS*n +: card_pkg::LINE_BITS] = line;
        end
    end
    dma_read #(.CLIENTS(READ_CLIENTS)) reads (
        .clk, .rst, .reset, .stopped, .drained, .read_valid(read_valids), .read_ready(read_readies),
        .read_iova(read_iovas), .read_index(read_indices), .line_valid(line_valids), .line_error(line.error),
        .line_index(line.index), .line(line.data), .dma_read_valid, .dma_read_ready, .dma_read_iova, .dma_read_tag,
        .dma_line_valid, .dma_line_error, .dma_line_tag, .dma_line
    );

    card_pkg::write_t command_write, scatter_write, completion_write, mpt_write, atomic_write, event_write;
    logic [WRITE_CLIENTS-1:0] write_readies;
    logic                     write_error;
    dma_write #(.CLIENTS(WRITE_CLIENTS), .LAST(WRITE_EVENT)) writes (
        .clk, .reset, .stopped,
        .client_writes({event_write, atomic_write, mpt_write, completion_write, scatter_write, command_write}),
        .write_ready(write_readies), .write_error, .message_valid, .message_ready, .message_address, .message_data,
        .message_vector, .dma_write_valid, .dma_write_ready, .dma_write_error, .dma_write_iova, .dma_write_line,
        .dma_write_strobe, .dma_write_message, .dma_write_vector
    );

    // ---------------------------------------------------------------------------------------- tables
    logic [QP_READERS*8-1:0]       qp_indices;
    logic [QP_READERS*QP_BITS-1:0] qps;
    logic                          qp_write, qps_idle, wake_valid;
    logic [7:0]                    wake_qp;
    card_pkg::qp_t                 qp_to_write;
    logic [1:0]                    fail_valid;
    logic                          send_fails_alone;
    logic [2:0]                    qp_was;
    logic [15:0]                   fail_qp;
    qp_table #(.READERS(QP_READERS), .FAILERS(2)) queue_pairs (
        .clk, .rst(reset), .index(qp_indices), .qps, .write_valid(qp_write),
        .write_index(qp_indices[8*QP_COMMAND +: 8]), .write_qp(qp_to_write), .write_from(qp_was), .fail_valid,
        .fail_sends({1'b0, send_fails_alone}), .fail_qp, .wake_valid,
        .wake_qp, .idle(qps_idle)
    );

    logic [GID_READERS*4-1:0]   gid_indices;
    logic [GID_READERS*128-1:0] gids;
    logic [GID_READERS*48-1:0]  macs;
    logic [GID_READERS*16-1:0]  vlans;     // the engines use the path's VLAN
    wire unused_macs = &{1'b0, macs, vlans};
    card_pkg::address_t address;
    logic [card_pkg::GIDS*128-1:0] all_gids;
    logic [card_pkg::GIDS*48-1:0]  all_macs;
    gid_table #(.READERS(GID_READERS)) addresses (
        .clk, .rst(reset), .write_valid(gid_valid), .write_index(gid_index), .write_address(address),
        .index(gid_indices), .gid(gids), .mac(macs), .vlan(vlans), .all_gids, .all_macs
    );
    assign gid = address.gid;
    assign gid_index = gid_indices[4*GID_COMMAND +: 4];

    card_pkg::slot_t slot_write;
    logic        slot_valid, doorbells_idle, count_doorbell, count_doorbell_error;
    card_pkg::doorbell_t ring;
    card_pkg::arm_t arm;
    logic        ring_send_valid, ring_send_ready, ring_receive_valid, ring_receive_ready;
    logic        arm_valid, arm_ready;
    doorbell_table doorbells (
        .clk, .rst(reset), .qpn_base, .doorbell_valid, .doorbell_ready, .doorbell_slot, .doorbell_value, .slot_valid,
        .slot_write, .qp_index(qp_indices[8*QP_DOORBELL +: 8]), .qp(qps[QP_BITS*QP_DOORBELL +: QP_BITS]),
        .send_valid(ring_send_valid), .send_ready(ring_send_ready), .receive_valid(ring_receive_valid),
        .receive_ready(ring_receive_ready), .ring, .arm_valid, .arm_ready, .arm, .count_doorbell,
        .count_error(count_doorbell_error), .idle(doorbells_idle)
    );

    // -------------------------------------------------------------------------------------- commands
    logic [EVENT_SOURCES-1:0]            event_valids, event_readies;
    logic [EVENT_SOURCES*EVENT_BITS-1:0] events;
    logic         answer_done, left_done, send_completion_valid, send_completion_ready;
    logic         commands_idle, count_command, count_command_error;
    logic         eq_control_valid, eq_control_ready, cq_control_valid, cq_control_ready;
    logic [1:0]   eq_control_op, cq_control_op;
    logic [3:0]   eq_control_number;
    logic [7:0]   cq_control_number;
    logic [511:0] eq_control_context, eq_answer_context, cq_control_context, cq_answer_context;
    logic         requester_control_valid, requester_control_ready, responder_control_valid, responder_control_ready;
    card_pkg::control_t control;
    card_pkg::send_query_t send_query;
    card_pkg::receive_query_t receive_query;
    card_pkg::event_t command_event;
    logic         entry_valid, entry_ready, entry_done;
    card_pkg::entry_t entry;
    logic [2:0]   entry_fault;
    logic [511:0] entry_answer;
    command_engine commands (
        .clk, .rst(reset), .qpn_base, .enabled, .hang(hang_commands), .ring_base, .ring_log, .posted, .completed,
        .fatal(fatal_command), .idle(commands_idle), .count_command, .count_error(count_command_error),
        .read(command_read), .read_ready(read_readies[card_pkg::READ_COMMAND]), .line(command_line),
        .write(command_write), .write_ready(write_readies[WRITE_COMMAND]), .write_error, .eq_control_valid,
        .eq_control_ready, .eq_control_op, .eq_control_number, .eq_control_context, .eq_answer_context,
        .cq_control_valid, .cq_control_ready, .cq_control_op, .cq_control_number, .cq_control_context,
        .cq_answer_context, .requester_valid(requester_control_valid), .requester_ready(requester_control_ready),
        .responder_valid(responder_control_valid), .responder_ready(responder_control_ready), .control, .send_query,
        .receive_query, .fail_valid, .fail_qp,
        .progress(answer_done || left_done || (send_completion_valid && send_completion_ready)),
        .event_valid(event_valids[EVENT_COMMAND]), .event_ready(event_readies[EVENT_COMMAND]),
        .event_data(command_event), .entry_valid, .entry_ready, .entry, .entry_done, .entry_fault, .entry_answer,
        .qp_index(qp_indices[8*QP_COMMAND +: 8]), .qp(qps[QP_BITS*QP_COMMAND +: QP_BITS]), .qp_write, .qp_to_write, .qp_was,
        .qp_begins(begins_valid), .slot_valid, .slot_write, .gid_write(gid_valid),
        .gid_index(gid_indices[4*GID_COMMAND +: 4]), .address, .gid(gids[128*GID_COMMAND +: 128]),
        .mac(macs[48*GID_COMMAND +: 48]), .vlan(vlans[16*GID_COMMAND +: 16])
    );
    // Blocks use QPNs from QPN_BASE on, whatever the card's first QPN is; the GSI has QPN 1 on every card.
    function automatic logic [23:0] outer_qpn(input logic [23:8] base, input logic [7:0] index);
        outer_qpn = index == card_pkg::GSI_INDEX ? ferroce_pkg::CONTEXT_GSI_QPN[23:0] : {base, index};
    endfunction
    assign begins_qpn = outer_qpn(qpn_base, qp_indices[8*QP_COMMAND +: 8]);
    always_ff @(posedge clk) begin
        if (qp_write && qp_indices[8*QP_COMMAND +: 8] == card_pkg::GSI_INDEX)
            gsi_is_open <= qp_to_write.exists && qp_to_write.state >= 3'(ferroce_pkg::QP_STATE_CODE_RTR)
                        && qp_to_write.state != 3'(ferroce_pkg::QP_STATE_CODE_ERR);
        if (reset) gsi_is_open <= 1'b0;
    end

    // ----------------------------------------------------------------------------------- memory regions
    logic [3:0] request_valids, request_readies, answer_valids, answer_readies;
    card_pkg::memory_request_t requester_request, completer_request, responder_request, response_request;
    card_pkg::piece_t memory_answer;
    logic [2:0] memory_fault;
    logic       memory_idle, count_mpt_hit, count_mpt_miss, count_mtt_hit, count_mtt_miss;
    memory_unit #(.MTT_LOG_SETS(9)) regions (
        .clk, .rst(reset), .request_valid(request_valids), .request_ready(request_readies),
        .request0(requester_request), .request1(completer_request), .request2(responder_request),
        .request3(response_request), .answer_valid(answer_valids), .answer_ready(answer_readies),
        .answer(memory_answer), .answer_fault(memory_fault), .entry_valid, .entry_ready, .entry, .entry_done,
        .entry_fault, .entry_answer, .mpt_read, .mpt_read_ready(read_readies[card_pkg::READ_MPT]), .mpt_line,
        .mpt_write, .mpt_write_ready(write_readies[WRITE_MPT]), .mpt_write_error(write_error), .mtt_read,
        .mtt_read_ready(read_readies[card_pkg::READ_MTT]), .mtt_line, .mpt_hit(count_mpt_hit),
        .mpt_miss(count_mpt_miss), .mtt_hit(count_mtt_hit), .mtt_miss(count_mtt_miss), .idle(memory_idle)
    );

    // ------------------------------------------------------------------------------------- send engine
    logic                  send_idle, send_doorbell_error;
    logic                  send_packet_valid, send_packet_ready, send_piece_valid, send_piece_ready;
    card_pkg::tx_packet_t  send_packet;
    card_pkg::piece_t      send_piece, answer_place;
    logic                  handed_answer_valid, handed_answer_ready;
    card_pkg::rx_packet_t  handed;
    card_pkg::qp_t         handed_qp;
    logic                  answer_place_valid, answer_place_ready, answer_place_drop;
    logic [15:0]           frames_done;
    card_pkg::completion_t send_completion;
    logic                  sent, sent_responder, payload_error, payload_error_responder;
    logic [7:0]            sent_qp;
    wire unused_sent_qp = &{1'b0, sent_qp};
    logic [7:0]            payload_error_qp;
    card_pkg::send_counts_t send_count;
    send_engine sender (
        .clk, .rst(reset), .now_ns(timer_ns), .idle(send_idle), .deadline_valid(timer_deadline_valid),
        .deadline_ns(timer_deadline_ns), .control_valid(requester_control_valid),
        .control_ready(requester_control_ready), .control, .query(send_query), .doorbell_valid(ring_send_valid),
        .doorbell_ready(ring_send_ready), .doorbell(ring), .doorbell_error(send_doorbell_error),
        .requester_qp_index(qp_indices[8*QP_REQUESTER +: 8]), .requester_qp(qps[QP_BITS*QP_REQUESTER +: QP_BITS]),
        .completer_qp_index(qp_indices[8*QP_COMPLETER +: 8]), .completer_qp(qps[QP_BITS*QP_COMPLETER +: QP_BITS]),
        .wake_valid, .wake_qp, .fail_valid(fail_valid[0]), .fail_sends(send_fails_alone), .fail_qp(fail_qp[7:0]),
        .gid_index(gid_indices[4*GID_REQUESTER +: 4]), .gid(gids[128*GID_REQUESTER +: 128]), .read(send_read),
        .read_ready(read_readies[card_pkg::READ_SEND_WQE]), .line(send_line),
        .requester_request_valid(request_valids[0]), .requester_request_ready(request_readies[0]), .requester_request,
        .requester_answer_valid(answer_valids[0]), .requester_answer_ready(answer_readies[0]),
        .requester_answer(memory_answer), .requester_answer_fault(memory_fault),
        .completer_request_valid(request_valids[1]), .completer_request_ready(request_readies[1]), .completer_request,
        .completer_answer_valid(answer_valids[1]), .completer_answer_ready(answer_readies[1]),
        .completer_answer(memory_answer), .completer_answer_fault(memory_fault), .packet_valid(send_packet_valid),
        .packet_ready(send_packet_ready), .packet(send_packet), .piece_valid(send_piece_valid),
        .piece_ready(send_piece_ready), .piece(send_piece), .sent_valid(sent && !sent_responder), .payload_error,
        .payload_error_responder, .payload_error_qp, .answer_valid(handed_answer_valid),
        .answer_ready(handed_answer_ready), .answer(handed), .answer_done, .left_done, .place_valid(answer_place_valid),
        .place_ready(answer_place_ready), .place(answer_place), .place_drop(answer_place_drop), .frames_done,
        .completion_valid(send_completion_valid), .completion_ready(send_completion_ready),
        .completion(send_completion), .count(send_count)
    );

    // -------------------------------------------------------------------------------------- responder
    logic                  responder_idle, receive_doorbell_error;
    logic                  handed_request_valid, handed_request_ready, request_done;
    logic                  request_place_valid, request_place_ready, request_place_drop;
    card_pkg::piece_t      request_place, response_piece;
    logic                  receive_completion_valid, receive_completion_ready;
    card_pkg::completion_t receive_completion;
    logic                  response_packet_valid, response_packet_ready, response_piece_valid, response_piece_ready;
    card_pkg::tx_packet_t  response_packet;
    card_pkg::event_t      responder_event;
    card_pkg::receive_counts_t receive_count;
    responder receiver (
        .clk, .rst(reset), .packet_valid(handed_request_valid), .packet_ready(handed_request_ready), .packet(handed),
        .packet_qp(handed_qp), .done(request_done), .place_valid(request_place_valid),
        .place_ready(request_place_ready), .place(request_place), .place_drop(request_place_drop), .frames_done,
        .control_valid(responder_control_valid), .control_ready(responder_control_ready), .control,
        .query(receive_query), .doorbell_valid(ring_receive_valid), .doorbell_ready(ring_receive_ready),
        .doorbell(ring), .doorbell_error(receive_doorbell_error), .wake_valid, .wake_qp,
        .qp_index(qp_indices[8*QP_RESPONDER +: 8]), .qp(qps[QP_BITS*QP_RESPONDER +: QP_BITS]),
        .fail_valid(fail_valid[1]), .fail_qp(fail_qp[15:8]), .read(receive_read),
        .read_ready(read_readies[card_pkg::READ_RECEIVE_WQE]), .line(receive_line), .atomic_read,
        .atomic_read_ready(read_readies[card_pkg::READ_ATOMIC]), .atomic_line, .atomic_write,
        .atomic_write_ready(write_readies[WRITE_ATOMIC]), .atomic_write_error(write_error),
        .request_valid(request_valids[2]),
        .request_ready(request_readies[2]), .request(responder_request), .answer_valid(answer_valids[2]),
        .answer_ready(answer_readies[2]), .answer(memory_answer), .answer_fault(memory_fault),
        .response_request_valid(request_valids[3]), .response_request_ready(request_readies[3]), .response_request,
        .response_answer_valid(answer_valids[3]), .response_answer_ready(answer_readies[3]),
        .response_answer(memory_answer), .response_answer_fault(memory_fault),
        .completion_valid(receive_completion_valid), .completion_ready(receive_completion_ready),
        .completion(receive_completion), .event_valid(event_valids[EVENT_RESPONDER]),
        .event_ready(event_readies[EVENT_RESPONDER]), .event_data(responder_event),
        .tx_packet_valid(response_packet_valid), .tx_packet_ready(response_packet_ready), .tx_packet(response_packet),
        .tx_piece_valid(response_piece_valid), .tx_piece_ready(response_piece_ready), .tx_piece(response_piece),
        .sent_valid(sent && sent_responder), .payload_error_valid(payload_error && payload_error_responder),
        .payload_error_qp, .count(receive_count), .idle(responder_idle)
    );

    // ------------------------------------------------------------------------------------------ to the wire
    logic transmit_idle;
    card_pkg::tx_packet_t outer_packet;
    always_comb begin
        outer_packet = send_packet;
        if (send_packet.opcode[7:5] == card_pkg::UD_OPCODES[7:5])   // the source QPN of its DETH
            outer_packet.address[23:0] = outer_qpn(qpn_base, send_packet.qp);
    end
    transmit transmitter (
        .clk, .rst(reset), .requester_packet_valid(send_packet_valid), .requester_packet_ready(send_packet_ready),
        .requester_packet(outer_packet), .requester_piece_valid(send_piece_valid),
        .requester_piece_ready(send_piece_ready), .requester_piece(send_piece),
        .responder_packet_valid(response_packet_valid), .responder_packet_ready(response_packet_ready),
        .responder_packet(response_packet), .responder_piece_valid(response_piece_valid),
        .responder_piece_ready(response_piece_ready), .responder_piece(response_piece),
        .gid_index(gid_indices[4*GID_TRANSMIT +: 4]), .gid(gids[128*GID_TRANSMIT +: 128]),
        .gid_mac(macs[48*GID_TRANSMIT +: 48]), .read(payload_read), .read_ready(read_readies[card_pkg::READ_PAYLOAD]),
        .line(payload_line), .sent, .sent_responder, .sent_qp, .payload_error, .payload_error_responder,
        .payload_error_qp, .tx_valid, .tx_ready, .tx({tx_data, tx_bytes, tx_last}), .idle(transmit_idle)
    );

    // -------------------------------------------------------------------------------------- from the wire
    card_pkg::beat_t payload;
    logic                 rx_packet_valid, rx_packet_ready, payload_valid, payload_ready;
    card_pkg::rx_packet_t rx_packet, own_packet;
    card_pkg::frame_counts_t frame_count;
    logic                 rx_idle;
    rx_buffer receive_buffer (
        .clk, .rst(reset), .rx_valid, .rx({rx_data, rx_bytes, rx_last}), .rx_error, .mac, .gids(all_gids),
        .gid_macs(all_macs), .packet_valid(rx_packet_valid), .packet_ready(rx_packet_ready), .packet(rx_packet), .payload_valid, .payload_ready, .payload,
        .count(frame_count), .idle(rx_idle)
    );
    rx_credits credits (
        .clk, .rst(reset), .comes(rx_valid && rx_last),
        .dropped(frame_count.malformed || frame_count.icrc_error || frame_count.overflow), .frames_done,
        .room(rx_room)
    );
    logic is_own_qpn;
    assign is_own_qpn = rx_packet.dest_qpn == ferroce_pkg::CONTEXT_GSI_QPN[23:0]
                     || (rx_packet.dest_qpn[23:8] == qpn_base && rx_packet.dest_qpn[7:0] >= 8'(card_pkg::RESERVED_QPS));
    always_comb begin
        own_packet = rx_packet;
        own_packet.dest_qpn[23:8] = is_own_qpn ? card_pkg::QPN_BASE[23:8] : '0;
    end

    logic             steer_idle, count_no_qp, count_wrong_path, place_valid, place_ready, place_drop, scatter_idle;
    card_pkg::piece_t place;
    steer steering (
        .clk, .rst(reset), .packet_valid(rx_packet_valid), .packet_ready(rx_packet_ready), .packet(own_packet),
        .qp_index(qp_indices[8*QP_STEER +: 8]), .qp(qps[QP_BITS*QP_STEER +: QP_BITS]),
        .request_valid(handed_request_valid), .request_ready(handed_request_ready), .request_done,
        .answer_valid(handed_answer_valid), .answer_ready(handed_answer_ready), .answer_done, .handed, .handed_qp,
        .request_place_valid, .request_place_ready, .request_place, .request_place_drop, .answer_place_valid,
        .answer_place_ready, .answer_place, .answer_place_drop, .place_valid, .place_ready, .place, .place_drop,
        .count_no_qp, .count_wrong_path, .idle(steer_idle)
    );
    scatter payload_writer (
        .clk, .rst(reset), .place_valid, .place_ready, .place, .place_drop, .payload_valid, .payload_ready, .payload,
        .write(scatter_write), .write_ready(write_readies[WRITE_SCATTER]), .frames_done, .idle(scatter_idle)
    );

    // -------------------------------------------------------------------------- completions and events
    card_pkg::completion_t own_send_completion, own_receive_completion;
    card_pkg::completion_counts_t count_error;
    logic        completions_idle, count_cqe, count_overrun, cq_deadline_valid, eq_deadline_valid;
    logic [63:0] cq_deadline_ns, eq_deadline_ns;
    card_pkg::event_t cq_event, own_event;
    always_comb begin
        own_send_completion = send_completion;
        own_send_completion.qpn = outer_qpn(qpn_base, send_completion.qpn[7:0]);
        own_receive_completion = receive_completion;
        own_receive_completion.qpn = outer_qpn(qpn_base, receive_completion.qpn[7:0]);
        own_event = responder_event;
        own_event.number = outer_qpn(qpn_base, responder_event.number[7:0]);
    end
    completion_writer completions (
        .clk, .rst(reset), .now_ns, .frames_done, .control_valid(cq_control_valid), .control_ready(cq_control_ready),
        .control_op(cq_control_op), .control_number(cq_control_number), .control_context(cq_control_context),
        .answer_context(cq_answer_context), .arm_valid, .arm_ready, .arm,
        .requester_completion_valid(send_completion_valid), .requester_completion_ready(send_completion_ready),
        .requester_completion(own_send_completion), .responder_completion_valid(receive_completion_valid),
        .responder_completion_ready(receive_completion_ready), .responder_completion(own_receive_completion),
        .read(completion_read), .read_ready(read_readies[card_pkg::READ_COMPLETION]), .line(completion_line),
        .write(completion_write), .write_ready(write_readies[WRITE_COMPLETION]), .write_error,
        .event_valid(event_valids[EVENT_COMPLETION]), .event_ready(event_readies[EVENT_COMPLETION]),
        .event_data(cq_event), .count_cqe, .count_overrun, .count_error, .deadline_valid(cq_deadline_valid),
        .deadline_ns(cq_deadline_ns), .idle(completions_idle)
    );
    assign events[EVENT_BITS*EVENT_COMPLETION +: EVENT_BITS] = cq_event;
    assign events[EVENT_BITS*EVENT_COMMAND +: EVENT_BITS] = command_event;
    assign events[EVENT_BITS*EVENT_RESPONDER +: EVENT_BITS] = own_event;

    logic             event_valid, event_ready, event_turns_idle, events_idle, count_eqe, was_stopped;
    card_pkg::event_t next_event;
    always_ff @(posedge clk) was_stopped <= stopped;
    event_turns #(.SOURCES(EVENT_SOURCES)) event_sources (
        .clk, .rst(reset), .event_valid(event_valids), .event_ready(event_readies), .events,
        .stops(stopped && !was_stopped), .next_valid(event_valid), .next_ready(event_ready), .next_event,
        .idle(event_turns_idle)
    );
    event_writer event_queues (
        .clk, .rst(reset), .now_ns, .control_valid(eq_control_valid), .control_ready(eq_control_ready),
        .control_op(eq_control_op), .control_number(eq_control_number), .control_context(eq_control_context),
        .answer_context(eq_answer_context), .event_valid, .event_ready, .event_data(next_event),
        .doorbell_valid(event_doorbell_valid), .doorbell_ready(event_doorbell_ready), .doorbell(event_doorbell),
        .write(event_write), .write_ready(write_readies[WRITE_EVENT]), .write_error, .interrupt_valid,
        .interrupt_ready, .interrupt_vector, .fatal(fatal_event), .count_eqe, .deadline_valid(eq_deadline_valid),
        .deadline_ns(eq_deadline_ns), .idle(events_idle)
    );
    assign deadline_valid = cq_deadline_valid || eq_deadline_valid;
    assign deadline_ns = cq_deadline_valid && (!eq_deadline_valid || cq_deadline_ns < eq_deadline_ns)
                       ? cq_deadline_ns : eq_deadline_ns;

    // -------------------------------------------------------------------------------------- counters
    logic [COUNTERS-1:0]             count;
    logic [COUNTERS*AMOUNT_BITS-1:0] amounts;
    logic                            begins_read, ends_write, ends_beat, begins_stall, was_stalled;
    logic                            fetches_wqe, is_refused;
    logic [6:0]                      strobed;   // bytes of a write
    logic [1:0]                      doorbell_errors;
    assign begins_read = dma_read_valid && dma_read_ready;
    assign ends_write = dma_write_valid && dma_write_ready;
    assign ends_beat = tx_valid && tx_ready;
    assign begins_stall = tx_valid && !tx_ready && !was_stalled;
    always_ff @(posedge clk) was_stalled <= tx_valid && !tx_ready;
    assign fetches_wqe = send_read.valid && read_readies[card_pkg::READ_SEND_WQE];
    assign is_refused = (answer_valids & answer_readies) != '0 && memory_fault != '0;
    assign doorbell_errors = 2'(count_doorbell_error) + 2'(send_doorbell_error) + 2'(receive_doorbell_error);
    always_comb begin
        strobed = '0;
        for (int n = 0; n < 64; n++) strobed = strobed + 7'(dma_write_strobe[n]);
    end
    always_comb begin
        count = COUNTERS'(ends_beat && tx_last) << ferroce_pkg::COUNTER_TX_FRAMES
              | COUNTERS'(ends_beat) << ferroce_pkg::COUNTER_TX_BYTES
              | COUNTERS'(frame_count.frame) << ferroce_pkg::COUNTER_RX_FRAMES
              | COUNTERS'(frame_count.frame) << ferroce_pkg::COUNTER_RX_BYTES
              | COUNTERS'(begins_stall) << ferroce_pkg::COUNTER_TX_STALLS
              | COUNTERS'(frame_count.overflow) << ferroce_pkg::COUNTER_RX_OVERFLOWS
              | COUNTERS'(frame_count.malformed) << ferroce_pkg::COUNTER_RX_MALFORMED
              | COUNTERS'(frame_count.icrc_error) << ferroce_pkg::COUNTER_RX_ICRC_ERRORS
              | COUNTERS'(count_no_qp) << ferroce_pkg::COUNTER_RX_NO_QP
              | COUNTERS'(receive_count.q_key_violation) << ferroce_pkg::COUNTER_RX_Q_KEY_VIOLATIONS
              | COUNTERS'(receive_count.no_receive) << ferroce_pkg::COUNTER_RX_NO_RECEIVE
              | COUNTERS'(count_wrong_path) << ferroce_pkg::COUNTER_RX_WRONG_PATH
              | COUNTERS'(count_doorbell) << ferroce_pkg::COUNTER_DOORBELLS
              | COUNTERS'(doorbell_errors != '0) << ferroce_pkg::COUNTER_DOORBELL_ERRORS
              | COUNTERS'(fetches_wqe) << ferroce_pkg::COUNTER_WQE_FETCHES
              | COUNTERS'(fetches_wqe) << ferroce_pkg::COUNTER_WQE_BLOCKS
              | COUNTERS'(send_count.refetch) << ferroce_pkg::COUNTER_WQE_REFETCHES
              | COUNTERS'(send_count.wqe_error) << ferroce_pkg::COUNTER_WQE_ERRORS
              | COUNTERS'(receive_count.receive_wqe) << ferroce_pkg::COUNTER_RECEIVE_WQES
              | COUNTERS'(count_cqe) << ferroce_pkg::COUNTER_CQES
              | COUNTERS'(count_overrun) << ferroce_pkg::COUNTER_CQ_OVERRUNS
              | COUNTERS'(count_eqe) << ferroce_pkg::COUNTER_EQES
              | COUNTERS'(message_valid && message_ready) << ferroce_pkg::COUNTER_INTERRUPTS
              | COUNTERS'(count_command) << ferroce_pkg::COUNTER_COMMANDS
              | COUNTERS'(count_command_error) << ferroce_pkg::COUNTER_COMMAND_ERRORS
              | COUNTERS'(begins_read) << ferroce_pkg::COUNTER_DMA_READS
              | COUNTERS'(begins_read) << ferroce_pkg::COUNTER_DMA_READ_BYTES
              | COUNTERS'(ends_write) << ferroce_pkg::COUNTER_DMA_WRITES
              | COUNTERS'(ends_write) << ferroce_pkg::COUNTER_DMA_WRITE_BYTES
              | COUNTERS'((dma_line_valid && dma_line_error) || (ends_write && dma_write_error))
                << ferroce_pkg::COUNTER_DMA_ERRORS
              | COUNTERS'(count_mpt_hit) << ferroce_pkg::COUNTER_MPT_HITS
              | COUNTERS'(count_mpt_miss) << ferroce_pkg::COUNTER_MPT_MISSES
              | COUNTERS'(count_mtt_hit) << ferroce_pkg::COUNTER_MTT_HITS
              | COUNTERS'(count_mtt_miss) << ferroce_pkg::COUNTER_MTT_MISSES
              | COUNTERS'(is_refused) << ferroce_pkg::COUNTER_PROTECTION_ERRORS
              | COUNTERS'(send_count.retransmitted) << ferroce_pkg::COUNTER_PACKETS_RETRANSMITTED
              | COUNTERS'(send_count.timeout) << ferroce_pkg::COUNTER_LOCAL_ACK_TIMEOUTS
              | COUNTERS'(send_count.rnr_nak) << ferroce_pkg::COUNTER_RNR_NAKS_RECEIVED
              | COUNTERS'(send_count.sequence_nak) << ferroce_pkg::COUNTER_SEQUENCE_NAKS_RECEIVED
              | COUNTERS'(send_count.other_nak) << ferroce_pkg::COUNTER_OTHER_NAKS_RECEIVED
              | COUNTERS'(receive_count.rnr_nak) << ferroce_pkg::COUNTER_RNR_NAKS_SENT
              | COUNTERS'(receive_count.sequence_nak) << ferroce_pkg::COUNTER_SEQUENCE_NAKS_SENT
              | COUNTERS'(receive_count.other_nak) << ferroce_pkg::COUNTER_OTHER_NAKS_SENT
              | COUNTERS'(receive_count.duplicate) << ferroce_pkg::COUNTER_DUPLICATE_REQUESTS
              | COUNTERS'(receive_count.write_request) << ferroce_pkg::COUNTER_WRITE_REQUESTS
              | COUNTERS'(receive_count.read_request) << ferroce_pkg::COUNTER_READ_REQUESTS
              | COUNTERS'(receive_count.atomic) << ferroce_pkg::COUNTER_ATOMICS
              | COUNTERS'(count_error.requester_error) << ferroce_pkg::COUNTER_REQUESTER_ERRORS
              | COUNTERS'(count_error.requester_flush) << ferroce_pkg::COUNTER_REQUESTER_FLUSHES
              | COUNTERS'(count_error.requester_access) << ferroce_pkg::COUNTER_REQUESTER_ACCESS_ERRORS
              | COUNTERS'(count_error.requester_invalid) << ferroce_pkg::COUNTER_REQUESTER_INVALID_REQUESTS
              | COUNTERS'(count_error.requester_rnr) << ferroce_pkg::COUNTER_REQUESTER_RNR_EXCEEDED
              | COUNTERS'(count_error.requester_retries) << ferroce_pkg::COUNTER_REQUESTER_RETRIES_EXCEEDED
              | COUNTERS'(count_error.responder_error) << ferroce_pkg::COUNTER_RESPONDER_ERRORS
              | COUNTERS'(count_error.responder_flush) << ferroce_pkg::COUNTER_RESPONDER_FLUSHES
              | COUNTERS'(count_error.responder_length) << ferroce_pkg::COUNTER_RESPONDER_LENGTH_ERRORS
              | COUNTERS'(receive_count.ack) << ferroce_pkg::COUNTER_ACKS_SENT;
        amounts = {COUNTERS{AMOUNT_BITS'(1)}};
        amounts[AMOUNT_BITS*ferroce_pkg::COUNTER_TX_BYTES +: AMOUNT_BITS] = AMOUNT_BITS'(tx_bytes);
        amounts[AMOUNT_BITS*ferroce_pkg::COUNTER_RX_BYTES +: AMOUNT_BITS] = frame_count.bytes;
        amounts[AMOUNT_BITS*ferroce_pkg::COUNTER_DOORBELL_ERRORS +: AMOUNT_BITS] = AMOUNT_BITS'(doorbell_errors);
        amounts[AMOUNT_BITS*ferroce_pkg::COUNTER_DMA_READ_BYTES +: AMOUNT_BITS] = AMOUNT_BITS'(64);
        amounts[AMOUNT_BITS*ferroce_pkg::COUNTER_DMA_WRITE_BYTES +: AMOUNT_BITS] = AMOUNT_BITS'(strobed);
    end
    counters #(.AMOUNT_BITS(AMOUNT_BITS)) counts (.clk, .rst(reset), .count, .amounts, .counter_index, .counter);

    // ------------------------------------------------------------------------------------------ quiet
    logic datapath_idle, host_idle;
    assign datapath_idle = send_idle && responder_idle && transmit_idle && rx_idle && steer_idle && scatter_idle
                        && memory_idle && completions_idle;
    assign host_idle = commands_idle && doorbells_idle && qps_idle && !doorbell_valid;
    assign quiet = !reset && !event_doorbell_valid && !message_valid && !interrupt_valid && event_turns_idle && events_idle
                && (stopped || (host_idle && datapath_idle));
endmodule

`default_nettype wire
