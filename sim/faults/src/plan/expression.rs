//! Plans as expressions: `loss=1e-3@ack,drop=read_response#3@qp17,seed=7`.
//!
//! ```text
//! EXPRESSION = ITEM { "," ITEM }
//! ITEM       = "seed=" NUMBER | FAULT "=" VALUE { "@" SELECTOR }
//! ```
//!
//! | fault | value |
//! | --- | --- |
//! | `loss`, `drop`, `dup` | `PROBABILITY`, or `CLASS#NUMBERS` |
//! | `corrupt`, `corrupt-header`, `corrupt-icrc` | `PROBABILITY`, or `CLASS#NUMBERS` |
//! | `burst` | `ENTER/LEAVE[/LOSS_BAD[/LOSS_GOOD]]`, probabilities |
//! | `delay`, `jitter` | `TIME` |
//! | `reorder` | `Npaths[/SPREAD]`, or `PROBABILITY[/TIME]`, or `CLASS#NUMBERS[/TIME]` |
//! | `down` | `TIME..TIME`, or `TIME..` |
//! | `partition` | `ADDRESS-ADDRESS` |
//! | `peer-qp-error`, `power-failure`, `mr-gone` | `TIME` |
//! | `peer-killed` | `TIME/qp-first`, or `TIME/mr-first[/TIME]` |
//! | `peer-stopped` | `TIME..TIME` |
//! | `no-receive`, `link-down`, `address-gone` | `TIME..TIME`, or `TIME..` |

use std::fmt;

use ferroce_units::Duration;

use super::error::PlanError;
use super::situation::Situation;
use super::text::{Address, Range, Time, address, duration, number, probability, range, span};
use super::{
    Burst, Cause, DEFAULT_SEED, Fault, Kind, MAX_EXPRESSION, MAX_FAULTS, MAX_PATHS, Numbers, Plan,
    Selector, When,
};
use crate::corrupt::Corruption;
use crate::packet::PacketClass;

/// The default spread of paths, and delay of an overtaken packet.
const DEFAULT_REORDER_DELAY: Duration = Duration::from_us(10);

const WHEN: &str =
    "a probability above 0, up to 1, such as 1e-3, or numbered packets, such as read_response#3";
const TIME: &str = "a time with its unit (ns, us, ms, s), such as 10us";
const REORDER: &str = "a number of paths, such as 8paths or 8paths/20us, a probability, such as \
                       1e-2 or 1e-2/20us, or numbered packets, such as write#3/20us";
const BURST: &str = "probabilities ENTER/LEAVE[/LOSS_BAD[/LOSS_GOOD]], such as 1e-4/0.2";
const SPAN: &str = "a span of time since the first packet, such as 5ms..7ms, or 5ms..";
const PARTITION: &str = "a pair of IP addresses, such as 10.0.0.1-10.0.0.2";
const NUMBER: &str = "a number";

/// Parses an expression.
pub(super) fn parse(text: &str) -> Result<Plan, PlanError> {
    if text.len() > MAX_EXPRESSION {
        return Err(PlanError::TooLong { length: text.len() });
    }
    let items = text
        .split(',')
        .map(str::trim)
        .filter(|item| !item.is_empty());
    let mut plan = Plan {
        seed: DEFAULT_SEED,
        faults: Vec::new(),
    };
    for item in items {
        add(&mut plan, item)?;
    }
    if plan.faults.is_empty() {
        Err(PlanError::Empty)
    } else {
        Ok(plan)
    }
}

/// Adds one item to a plan.
pub(super) fn add(plan: &mut Plan, item: &str) -> Result<(), PlanError> {
    let form = || PlanError::Form {
        item: item.to_owned(),
    };
    let (key, rest) = item.split_once('=').ok_or_else(form)?;
    if key == "seed" {
        plan.seed = number(rest).ok_or_else(|| wrong(key, rest, NUMBER))?;
        return Ok(());
    }
    if plan.faults.len() == MAX_FAULTS {
        return Err(PlanError::TooMany);
    }
    let mut parts = rest.split('@');
    let value = parts.next().unwrap_or_default();
    let mut selector = Selector::default();
    let kind = parse_kind(key, value, &mut selector)?;
    for text in parts {
        select(&mut selector, item, text)?;
    }
    check_place(item, &kind, &selector)?;
    plan.faults.push(Fault { kind, selector });
    Ok(())
}

/// Checks that a situation, and nothing else, is selected by its host.
fn check_place(item: &str, kind: &Kind, selector: &Selector) -> Result<(), PlanError> {
    let item = item.to_owned();
    let of_packets = Selector {
        during: None,
        at: None,
        ..selector.clone()
    };
    match kind {
        Kind::Situation(_) if of_packets != Selector::default() => Err(PlanError::Packets { item }),
        Kind::Situation(_) => Ok(()),
        _ if selector.at.is_some() => Err(PlanError::Place { item }),
        _ => Ok(()),
    }
}

fn wrong(key: &str, value: &str, expected: &'static str) -> PlanError {
    PlanError::Value {
        key: key.to_owned(),
        value: value.to_owned(),
        expected,
    }
}

fn parse_kind(key: &str, value: &str, selector: &mut Selector) -> Result<Kind, PlanError> {
    let when = |selector: &mut Selector| parse_when(key, value, selector, WHEN);
    let time = || {
        let positive = duration(value).filter(|time| !time.is_zero());
        positive.ok_or_else(|| wrong(key, value, TIME))
    };
    Ok(match key {
        "loss" | "drop" => Kind::Loss(when(selector)?),
        "dup" => Kind::Duplicate(when(selector)?),
        "corrupt" => Kind::Corrupt(Corruption::Payload, when(selector)?),
        "corrupt-header" => Kind::Corrupt(Corruption::Header, when(selector)?),
        "corrupt-icrc" => Kind::Corrupt(Corruption::Icrc, when(selector)?),
        "burst" => Kind::Burst(burst(value).ok_or_else(|| wrong(key, value, BURST))?),
        "delay" => Kind::Delay(time()?),
        "jitter" => Kind::Jitter(time()?),
        "reorder" => reorder(key, value, selector)?,
        "down" => {
            selector.during = Some(span(value).ok_or_else(|| wrong(key, value, SPAN))?);
            Kind::Down
        }
        "partition" => {
            let pair = value.split_once('-');
            let pair = pair.and_then(|(one, other)| Some((address(one)?, address(other)?)));
            let (one, other) = pair.ok_or_else(|| wrong(key, value, PARTITION))?;
            Kind::Partition(one, other)
        }
        _ => {
            let name = || key.to_owned();
            let known = Situation::of_plan(key, value);
            let known = known.ok_or_else(|| PlanError::Kind { name: name() })?;
            let (situation, during) = known.map_err(|expected| wrong(key, value, expected))?;
            selector.during = Some(during);
            Kind::Situation(situation)
        }
    })
}

/// Parses a probability or `CLASS#NUMBERS`; the class is stored in the selector.
fn parse_when(
    key: &str,
    value: &str,
    selector: &mut Selector,
    expected: &'static str,
) -> Result<When, PlanError> {
    let refused = || wrong(key, value, expected);
    let Some((class, list)) = value.split_once('#') else {
        let probability = probability(value).ok_or_else(refused)?;
        return Ok(When::Random(Cause(probability)));
    };
    let class = PacketClass::named(class).ok_or_else(refused)?;
    selector.packets = Some(class);
    let mut numbers = Numbers::default();
    for part in list.split('+') {
        let range = range(part).filter(|range| *range.start() > 0);
        let range = range.ok_or_else(refused)?;
        if !numbers.add(range.into_inner()) {
            let value = value.to_owned();
            return Err(PlanError::TooManyRanges { value });
        }
    }
    Ok(When::Numbered(numbers))
}

fn burst(value: &str) -> Option<Burst> {
    let mut parts = value.split('/');
    let mut next = || parts.next().map(probability);
    let (enter, leave) = (next()??, next()??);
    let loss_bad = next().unwrap_or_else(|| probability("1"))?;
    let loss_good = match next() {
        None => None,
        Some(probability) => Some(probability?),
    };
    parts.next().is_none().then_some(Burst {
        enter,
        leave,
        loss_bad,
        loss_good,
    })
}

fn reorder(key: &str, value: &str, selector: &mut Selector) -> Result<Kind, PlanError> {
    let (what, time) = match value.split_once('/') {
        None => (value, DEFAULT_REORDER_DELAY),
        Some((what, time)) => {
            let time = duration(time).filter(|time| !time.is_zero());
            (what, time.ok_or_else(|| wrong(key, value, REORDER))?)
        }
    };
    let Some(paths) = what.strip_suffix("paths") else {
        let when = parse_when(key, what, selector, REORDER)?;
        return Ok(Kind::Overtake { when, delay: time });
    };
    let paths = number(paths).filter(|paths| (2..=MAX_PATHS).contains(paths));
    let value = value.to_owned();
    let paths = paths.ok_or(PlanError::Paths { value })?;
    let spread = time;
    Ok(Kind::Spray { paths, spread })
}

/// Adds one part to a selector.
fn select(selector: &mut Selector, item: &str, text: &str) -> Result<(), PlanError> {
    let unknown = || PlanError::Selector {
        text: text.to_owned(),
    };
    let is_new = if let Some(qp) = text.strip_prefix("qp") {
        let qp = number(qp).and_then(|qp| u32::try_from(qp).ok());
        selector.qp.replace(qp.ok_or_else(unknown)?).is_none()
    } else if let Some(flow) = text.strip_prefix("flow") {
        let flow = number(flow).ok_or_else(unknown)?;
        selector.flow.replace(flow).is_none()
    } else if let Some(psn) = text.strip_prefix("psn") {
        let psn = range(psn).ok_or_else(unknown)?;
        selector.psn.replace(psn).is_none()
    } else if let Some(tries) = text.strip_prefix("try") {
        let tries = range(tries).filter(|range| *range.start() > 0);
        selector.tries.replace(tries.ok_or_else(unknown)?).is_none()
    } else if let Some(from) = text.strip_prefix("from:") {
        let from = address(from).ok_or_else(unknown)?;
        selector.from.replace(from).is_none()
    } else if let Some(to) = text.strip_prefix("to:") {
        let to = address(to).ok_or_else(unknown)?;
        selector.to.replace(to).is_none()
    } else if let Some(at) = text.strip_prefix("at:") {
        let at = address(at).ok_or_else(unknown)?;
        selector.at.replace(at).is_none()
    } else if let Some(span) = span(text) {
        selector.during.replace(span).is_none()
    } else {
        let class = PacketClass::named(text).ok_or_else(unknown)?;
        selector.packets.replace(class).is_none()
    };
    let (item, text) = (item.to_owned(), text.to_owned());
    if is_new {
        Ok(())
    } else {
        Err(PlanError::Twice { item, text })
    }
}

impl fmt::Display for Plan {
    /// Prints the plan as an expression.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for fault in &self.faults {
            write!(f, "{fault},")?;
        }
        write!(f, "seed={}", self.seed)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Selector {
            packets,
            qp,
            flow,
            psn,
            tries,
            from,
            to,
            during,
            at,
        } = &self.selector;
        let when = |when: When| Written(when, *packets);
        write!(f, "{}=", self.kind.name())?;
        let mut shows_packets = true;
        let mut shows_during = true;
        match self.kind {
            Kind::Loss(chosen) | Kind::Duplicate(chosen) | Kind::Corrupt(_, chosen) => {
                shows_packets = matches!(chosen, When::Random(_));
                write!(f, "{}", when(chosen))?;
            }
            Kind::Burst(burst) => write!(f, "{burst}")?,
            Kind::Delay(time) | Kind::Jitter(time) => write!(f, "{}", Time(time))?,
            Kind::Spray { paths, spread } => write!(f, "{paths}paths/{}", Time(spread))?,
            Kind::Overtake {
                when: chosen,
                delay,
            } => {
                shows_packets = matches!(chosen, When::Random(_));
                write!(f, "{}/{}", when(chosen), Time(delay))?;
            }
            Kind::Down => {
                shows_during = false;
                during.map_or(Ok(()), |during| during.fmt(f))?;
            }
            Kind::Partition(one, other) => write!(f, "{}-{}", Address(one), Address(other))?,
            Kind::Situation(situation) => {
                shows_during = false;
                during.map_or(Ok(()), |during| situation.write_value(&during, f))?;
            }
        }
        let class = packets.filter(|_| shows_packets);
        class.map_or(Ok(()), |class| write!(f, "@{class}"))?;
        qp.map_or(Ok(()), |qp| write!(f, "@qp{qp}"))?;
        flow.map_or(Ok(()), |flow| write!(f, "@flow{flow}"))?;
        psn.as_ref()
            .map_or(Ok(()), |psn| write!(f, "@psn{}", Range(psn)))?;
        tries
            .as_ref()
            .map_or(Ok(()), |tries| write!(f, "@try{}", Range(tries)))?;
        from.map_or(Ok(()), |from| write!(f, "@from:{}", Address(from)))?;
        to.map_or(Ok(()), |to| write!(f, "@to:{}", Address(to)))?;
        at.map_or(Ok(()), |at| write!(f, "@at:{}", Address(at)))?;
        let during = during.filter(|_| shows_during);
        during.map_or(Ok(()), |during| write!(f, "@{during}"))
    }
}

/// A choice of packets, with the class to which its numbers refer.
struct Written(When, Option<PacketClass>);

impl fmt::Display for Written {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers = match self.0 {
            When::Random(cause) => return write!(f, "{:e}", cause.probability()),
            When::Numbered(numbers) => numbers,
        };
        write!(f, "{}#", self.1.unwrap_or(PacketClass::Any))?;
        for (index, (first, last)) in numbers.ranges().iter().enumerate() {
            let plus = if index == 0 { "" } else { "+" };
            write!(f, "{plus}{}", Range(&(*first..=*last)))?;
        }
        Ok(())
    }
}

impl fmt::Display for Burst {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (enter, leave, bad) = (self.enter, self.leave, self.loss_bad);
        write!(
            f,
            "{:e}/{:e}/{:e}",
            enter.value(),
            leave.value(),
            bad.value()
        )?;
        let good = self.loss_good;
        good.map_or(Ok(()), |good| write!(f, "/{:e}", good.value()))
    }
}
