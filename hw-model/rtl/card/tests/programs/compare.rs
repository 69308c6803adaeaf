//! Compares the observations of two runs of a program.

use std::fmt::Debug;

use crate::frames::Stream;
use crate::run::{Outcome, WindowSeen};

/// Compares a run with the reference, the model with itself.
///
/// # Errors
/// The first difference.
pub fn compare(reference: &Outcome, other: &Outcome, is_lossy: bool) -> Result<(), String> {
    compare_completions(reference, other)?;
    let windows = reference.windows.iter().zip(&other.windows);
    for (number, (expected, seen)) in windows.enumerate() {
        compare_window(expected, seen, is_lossy)
            .map_err(|difference| format!("window {number}: {difference}"))?;
    }
    for side in 0..2 {
        let (expected, seen) = (&reference.memory[side], &other.memory[side]);
        if let Some(at) = (0..expected.len()).find(|&at| expected[at] != seen[at]) {
            let (expected, seen) = (expected[at], seen[at]);
            return Err(format!(
                "byte {at:#x} of side {side}'s data is {seen:#x}, expected {expected:#x}"
            ));
        }
    }
    Ok(())
}

fn compare_completions(reference: &Outcome, other: &Outcome) -> Result<(), String> {
    let keys = reference.completions.keys().chain(other.completions.keys());
    for key in keys {
        let nothing = Vec::new();
        let expected = reference.completions.get(key).unwrap_or(&nothing);
        let seen = other.completions.get(key).unwrap_or(&nothing);
        let queue = if key.2 { "receive" } else { "send" };
        equal(expected, seen, "CQE")
            .map_err(|what| format!("side {}, {queue} queue of QP {}: {what}", key.0, key.1))?;
    }
    Ok(())
}

fn compare_window(expected: &WindowSeen, seen: &WindowSeen, is_lossy: bool) -> Result<(), String> {
    for (qp, (expected_states, seen_states)) in expected.states.iter().zip(&seen.states).enumerate()
    {
        for side in 0..2 {
            let (expected_state, seen_state) = (&expected_states[side], &seen_states[side]);
            let is_failing = expected.failing.contains(&qp);
            let is_same = match is_lossy && is_failing {
                // Packets of the failed request may have been lost.
                true => expected_state.state == seen_state.state,
                false => expected_state == seen_state,
            };
            if !is_same {
                return Err(format!(
                    "QP {qp} of side {side} is {seen_state:x?}, expected {expected_state:x?}"
                ));
            }
            if is_lossy {
                continue;
            }
            let [expected, seen] = [expected, seen].map(|window| &window.streams[qp][side]);
            compare_streams(expected, seen, is_failing)
                .map_err(|what| format!("frames of QP {qp}, from side {side}: {what}"))?;
        }
    }
    if expected.events != seen.events {
        return Err(format!(
            "events are {:?}, expected {:?}",
            seen.events, expected.events
        ));
    }
    Ok(())
}

/// Compares the frames that one end has sent. In a window with a failing request, the number of
/// frames sent after it depends on timing, so one run may have sent more.
fn compare_streams(expected: &Stream, seen: &Stream, is_failing: bool) -> Result<(), String> {
    if expected.naks != seen.naks {
        return Err(format!(
            "NAKs (syndrome, PSN, MSN) are {:x?}, expected {:x?}",
            seen.naks, expected.naks
        ));
    }
    if !is_failing && !seen.requests.is_empty() && !seen.asks {
        return Err("the last request does not ask for an acknowledge".to_owned());
    }
    let requests = (&expected.requests[..], &seen.requests[..]);
    let responses = (&expected.responses[..], &seen.responses[..]);
    if is_failing {
        prefix(requests.0, requests.1, "request")?;
        return prefix(responses.0, responses.1, "response");
    }
    for (psn, msn) in &seen.acks {
        if expected.acks.get(psn).is_some_and(|known| known != msn) {
            return Err(format!("an ACK of PSN {psn:#x} has MSN {msn:#x}"));
        }
    }
    equal(requests.0, requests.1, "request")?;
    equal(responses.0, responses.1, "response")?;
    if expected.newest_ack == seen.newest_ack {
        Ok(())
    } else {
        Err(format!(
            "the newest ACK is of PSN {:x?}, expected {:x?}",
            seen.newest_ack, expected.newest_ack
        ))
    }
}

/// Checks that two lists are equal.
fn equal<T: PartialEq + Debug>(expected: &[T], seen: &[T], what: &str) -> Result<(), String> {
    prefix(expected, seen, what)?;
    let (longer, verdict) = if expected.len() > seen.len() {
        (expected, "is missing")
    } else {
        (seen, "is too much")
    };
    match longer.get(expected.len().min(seen.len())) {
        None => Ok(()),
        Some(extra) => Err(format!("{what} {extra:x?} {verdict}")),
    }
}

/// Checks that the shorter list is a prefix of the longer one.
fn prefix<T: PartialEq + Debug>(expected: &[T], seen: &[T], what: &str) -> Result<(), String> {
    let mut both = expected.iter().zip(seen).enumerate();
    match both.find(|(_, (expected, seen))| expected != seen) {
        None => Ok(()),
        Some((number, (expected, seen))) => Err(format!(
            "{what} {number} is {seen:x?}, expected {expected:x?}"
        )),
    }
}
