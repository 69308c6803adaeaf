//! Syntax of plans.

use ferroce_faults::{MAX_FAULTS, Onset, Plan, Situation, TEARDOWN, Teardown};
use ferroce_units::Duration;

/// Goal: the grammar. Method: each plan is parsed, printed in its canonical form, and parsed again
/// to the same plan.
#[test]
fn expressions_are_read_and_printed() {
    for (text, canonical) in [
        ("loss=1e-3,seed=7", "loss=1e-3,seed=7"),
        ("drop=0.5@ack", "loss=5e-1@ack,seed=1"),
        (
            "drop=read_response#3@qp17",
            "loss=read_response#3@qp17,seed=1",
        ),
        ("dup=1e-2, corrupt=1e-3", "dup=1e-2,corrupt=1e-3,seed=1"),
        (
            "corrupt-header=1,corrupt-icrc=write#1-2+9",
            "corrupt-header=1e0,corrupt-icrc=write#1-2+9,seed=1",
        ),
        ("delay=10us,jitter=1.5us", "delay=10us,jitter=1500ns,seed=1"),
        ("reorder=8paths", "reorder=8paths/10us,seed=1"),
        (
            "reorder=1e-2/20us,reorder=send#4/1ms",
            "reorder=1e-2/20us,reorder=send#4/1ms,seed=1",
        ),
        (
            "down=5ms..7ms,down=1s..",
            "down=5ms..7ms,down=1000ms..,seed=1",
        ),
        (
            "partition=10.0.0.1-fe80::1@2ms..3ms",
            "partition=10.0.0.1-fe80::1@2ms..3ms,seed=1",
        ),
        ("burst=1e-4/0.2", "burst=1e-4/2e-1/1e0,seed=1"),
        (
            "burst=1e-4/0.2/0.9/1e-5@request",
            "burst=1e-4/2e-1/9e-1/1e-5@request,seed=1",
        ),
        (
            "loss=1@flow2@psn3-9@try1-2@from:10.0.0.1@to:::2@rc_rdma_write_only",
            "loss=1e0@rc_rdma_write_only@flow2@psn3-9@try1-2@from:10.0.0.1@to:::2,seed=1",
        ),
        (
            "peer-qp-error=5ms,mr-gone=0s@at:10.0.0.1,power-failure=2us",
            "peer-qp-error=5ms,mr-gone=0ms@at:10.0.0.1,power-failure=2us,seed=1",
        ),
        (
            "peer-killed=5ms/qp-first,peer-killed=5ms/mr-first",
            "peer-killed=5ms/qp-first,peer-killed=5ms/mr-first/10ms,seed=1",
        ),
        (
            "peer-stopped=1ms..4s,no-receive=1ms..,link-down=2us..3us@at:::2",
            "peer-stopped=1ms..4000ms,no-receive=1ms..,link-down=2us..3us@at:::2,seed=1",
        ),
        (
            "address-gone=5ms..,address-gone=1ms..4s@at:10.0.0.1",
            "address-gone=5ms..,address-gone=1ms..4000ms@at:10.0.0.1,seed=1",
        ),
    ] {
        let plan: Plan = text
            .parse()
            .unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(plan.to_string(), canonical);
        assert_eq!(canonical.parse(), Ok(plan), "{canonical}");
    }
}

#[test]
fn refusals_say_what_is_wrong_and_what_is_right() {
    for (text, expected) in [
        ("", "the plan has no fault"),
        ("seed=3", "the plan has no fault"),
        ("loss", "\"loss\" is not of the form FAULT=VALUE"),
        (
            "los=1",
            "there is no fault \"los\"; faults are loss (or drop)",
        ),
        (
            "loss=2",
            "loss=2: \"2\" is not a probability above 0, up to 1",
        ),
        ("loss=0", "is not a probability"),
        ("loss=nan", "is not a probability"),
        (
            "drop=reads#3",
            "or numbered packets, such as read_response#3",
        ),
        ("drop=ack#0", "is not a probability"),
        ("drop=ack#5-3", "is not a probability"),
        (
            "delay=10",
            "a time with its unit (ns, us, ms, s), such as 10us",
        ),
        ("jitter=0us", "a time with its unit"),
        ("delay=-1us", "a time with its unit"),
        (
            "reorder=1paths",
            "reorder=1paths: a number of paths is between 2 and 1024",
        ),
        ("reorder=8", "is not a number of paths, such as 8paths"),
        ("down=7ms..5ms", "a span of time since the first packet"),
        ("down=5ms", "a span of time since the first packet"),
        ("partition=10.0.0.1", "a pair of IP addresses"),
        ("burst=0.1", "ENTER/LEAVE"),
        ("burst=0.1/0.1/1/1/1", "ENTER/LEAVE"),
        (
            "loss=1@qpx",
            "@qpx: not a selector; selectors are @qpNUMBER",
        ),
        ("loss=1@try0", "not a selector"),
        ("drop=ack#1@write", "already selected"),
        ("down=1ms..2ms@3ms..4ms", "already selected"),
        ("peer-killed=5ms", "such as 5ms/qp-first or 5ms/mr-first"),
        ("peer-killed=5ms/qp-first/1ms", "such as 5ms/qp-first"),
        ("peer-killed=mr-first", "such as 5ms/qp-first"),
        (
            "peer-stopped=5ms..",
            "a span of time since the first packet",
        ),
        (
            "mr-gone=5ms..7ms",
            "a time since the first packet, such as 5ms",
        ),
        (
            "mr-gone=5ms@qp3",
            "the only selector is the host, @at:ADDRESS",
        ),
        ("mr-gone=5ms@at:x", "@at:x: not a selector"),
        (
            "loss=1@at:10.0.0.1",
            "packets are selected by @from:ADDRESS",
        ),
        ("loss=1,seed=x", "seed=x: \"x\" is not a number"),
    ] {
        let error = text.parse::<Plan>().expect_err(text).to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }
    let many = vec!["loss=1"; MAX_FAULTS + 1].join(",");
    let error = many.parse::<Plan>().expect_err("too many").to_string();
    assert_eq!(error, "more than 16 faults");
    let long = format!("loss=1@psn{}-1", " ".repeat(600));
    assert!(
        long.parse::<Plan>()
            .expect_err("long")
            .to_string()
            .contains("at most 512")
    );
}

#[test]
fn files_say_the_same_as_expressions() {
    let file = "
        seed = 9
        [[fault]]
        kind = 'drop'
        value = 'read_response#3'
        qp = 17
        [[fault]]
        kind = 'loss'
        value = 1e-3
        packets = 'ack'
        from = '10.0.0.1'
        during = '1ms..2ms'
        psn = '0-99'
        try = 1
        [[fault]]
        kind = 'reorder'
        value = '8paths'
        [[fault]]
        kind = 'peer-killed'
        value = '5ms/mr-first'
        at = '10.0.0.1'
    ";
    let expression = "drop=read_response#3@qp17,loss=1e-3@ack@from:10.0.0.1@1ms..2ms@psn0-99@try1,\
                      reorder=8paths,peer-killed=5ms/mr-first@at:10.0.0.1,seed=9";
    assert_eq!(Plan::from_toml(file), expression.parse());
    for (file, expected) in [
        ("[[fault]]\nkind = 'loss'", "a table [[fault]] needs value"),
        ("[[fault]]\nvalue = 1", "a table [[fault]] needs kind"),
        (
            "[[fault]]\nkind='loss'\nvalue=1\nqpn=3",
            "unknown key \"qpn\"",
        ),
        (
            "[[fault]]\nkind='loss'\nvalue=true",
            "a number, or a string",
        ),
        ("[[fault]]\nkind='loss'\nvalue='1@ack'", "without @"),
        ("faults = 3", "unknown key \"faults\""),
        ("seed = 3", "no fault"),
        ("seed = ", "not TOML"),
    ] {
        let error = Plan::from_toml(file).expect_err(file).to_string();
        assert!(error.contains(expected), "{file}: {error}");
    }
}

/// Goal: what `ferroce inject` takes after the name of a situation.
#[test]
fn onsets_have_an_order_or_a_time() {
    let killed = Situation::PeerKilled(Teardown::MrFirst);
    for (text, situation, time) in [
        ("mr-gone", Situation::MrGone, None),
        ("no-receive", Situation::NoReceive, None),
        ("address-gone", Situation::AddressGone, None),
        (
            "peer-stopped 4s",
            Situation::PeerStopped,
            Some(Duration::from_ms(4000)),
        ),
        ("peer-killed mr-first", killed, Some(TEARDOWN)),
        (
            "peer-killed mr-first/1s",
            killed,
            Some(Duration::from_ms(1000)),
        ),
    ] {
        assert_eq!(text.parse(), Ok(Onset { situation, time }));
    }
    for (text, expected) in [
        ("mr-lost", "\"mr-lost\" is not the name of a situation"),
        ("mr-gone 4s", "it happens once"),
        ("peer-stopped", "how long it lasts"),
        ("link-down 0s", "or nothing"),
        ("peer-killed", "qp-first or mr-first"),
    ] {
        let error = text.parse::<Onset>().expect_err(text).to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }
}
