// SPDX-License-Identifier: MIT OR Apache-2.0
`default_nettype none

// QUERY_QP: composes the QpContext of a QP from the attributes set by commands and the engines'
// answers. Combinational.
module qp_compose (
    input  card_pkg::qp_t qp,
    input  logic          is_gsi,
    input  logic [63:0]   slots,           // of the doorbells: send queue, receive queue
    input  logic [31:0]   rate,            // static_rate of the path
    input  card_pkg::send_query_t send_query,
    input  card_pkg::receive_query_t receive_query,
    output logic [2047:0] context_
);
    wire unused_inputs = &{1'b0, qp};
    ferroce_pkg::qp_context_t   whole;
    ferroce_pkg::address_path_t path;
    always_comb begin
        path = '0;
        path.static_rate = rate;
        path.flow_label = 32'(qp.path.flow_label);
        path.service_level = 8'(qp.path.service_level);
        path.hop_limit = qp.path.hop_limit;
        path.traffic_class = qp.path.traffic_class;
        path.udp_source_port = qp.path.udp_source_port;
        path.source_gid_index = 16'(qp.path.source_gid_index);
        path.vlan = qp.path.vlan;
        path.dest_mac = qp.path.dest_mac;
        path.dest_gid = qp.path.dest_gid;
    end
    always_comb begin
        whole = '0;
        whole.state = 8'(qp.state);
        if (qp.is_datagram) whole.service = is_gsi ? ferroce_pkg::SERVICE_CODE_GSI
                                                   : ferroce_pkg::SERVICE_CODE_UNRELIABLE_DATAGRAM;
        whole.path_mtu = 8'(qp.path_mtu);
        whole.port = 8'd1;
        whole.pd = 32'(qp.pd);
        whole.send_cqn = 32'(qp.send_cqn);
        whole.receive_cqn = 32'(qp.receive_cqn);
        whole.send_base = qp.send_base;
        whole.receive_base = qp.receive_base;
        whole.shape.log_send_blocks = 8'(qp.log_send_blocks);
        whole.shape.log_receives = 8'(qp.log_receives);
        whole.shape.log_receive_stride = 8'(qp.log_receive_stride);
        whole.send_doorbell_slot = slots[31:0];
        whole.receive_doorbell_slot = slots[63:32];
        whole.access.remote_write = qp.access[1];
        whole.access.remote_read = qp.access[2];
        whole.access.remote_atomic = qp.access[3];
        whole.q_key = qp.q_key;
        whole.dest_qpn = 32'(qp.dest_qpn);
        whole.send_psn = 32'(send_query.send_psn);
        whole.receive_psn = 32'(receive_query.receive_psn);
        whole.retry.retry_count = qp.retry_count;
        whole.retry.rnr_retry = qp.rnr_retry;
        whole.retry.timeout = qp.timeout;
        whole.retry.min_rnr_timer = qp.min_rnr_timer;
        whole.max_rd_atomic = 8'(qp.max_rd_atomic);
        whole.max_dest_rd_atomic = 8'(qp.max_dest_rd_atomic);
        whole.draining = 8'(qp.state == 3'(ferroce_pkg::QP_STATE_CODE_SQD) && !send_query.drained);
        whole.path = path;
        whole.send_producer = send_query.producer;
        whole.send_fetched = send_query.fetched;
        whole.receive_producer = receive_query.producer;
        whole.receive_consumer = receive_query.consumer;
        whole.unacknowledged_psn = 32'(send_query.unacknowledged_psn);
        whole.message_sequence = 32'(receive_query.message_sequence);
    end
    assign context_ = whole;
endmodule

`default_nettype wire
